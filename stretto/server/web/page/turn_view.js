// One question of a conversation on the page: its words, its answers and what can be done with them.

import { AnswerView } from "./answer/view.js";
import { Race } from "./answer/race.js";
import { element } from "./element.js";
import { routeOf } from "./fields.js";
import { saveAnswer } from "./saving.js";
import { sign } from "./signs.js";
import { shownPicture } from "./pictures.js";
import { picturesOf, shownAnswer, shownIndex, textsOf } from "./turns.js";

const LONGEST_TITLE = 60; // characters of a question in a label
const LONG = 400; // characters, from which a question is set as text and not as a heading

const $ = (id) => document.getElementById(id);

export class TurnView {
  // `number` is that of the question in its conversation. `acts`: {edit, retry, toVersion, toAnswer, isBusy}.
  constructor(turn, number, acts) {
    Object.assign(this, { turn, number, acts });
    this.asked = element("div", {});
    this.answers = element("div", { class: "sides" });
    this.race = null;
    this.root = element("article", { "aria-label": `Question ${number}: ${turn.question.slice(0, LONGEST_TITLE)}` }, this.asked, this.answers);
    this.showQuestion();
  }

  showQuestion() {
    const { turn, acts } = this;
    const documents = textsOf(turn).map((each) => each.title).join(", ");
    const pictures = picturesOf(turn).map(shownPicture);
    const long = turn.question.length > LONG;
    const { versions } = turn;
    this.asked.className = `asked${long ? " long" : ""}`;
    this.asked.replaceChildren(
      element("h2", { dir: "auto", tabindex: long ? "0" : null }, turn.question),
      element("div", { class: "bar tools" },
        versions ? pages("question", versions.at, versions.tails.length, (at) => acts.toVersion(turn, at)) : null,
        element("button", { type: "button", class: "quiet edit", onclick: () => acts.isBusy() || this.editQuestion() }, sign("edit"), "Edit")),
      ...(documents ? [element("span", { class: "dim with" }, `with ${documents}`)] : []),
      ...(pictures.length ? [element("div", { class: "pictures" }, ...pictures)] : []));
  }

  // In its own place; the question as it was comes back with Escape.
  editQuestion() {
    const { turn, acts } = this;
    const field = element("textarea", { "aria-label": "The question", dir: "auto" });
    field.value = turn.question;
    const back = () => {
      this.showQuestion();
      this.asked.querySelector(".edit").focus();
    };
    const form = element("form", { "aria-label": "Change the question" }, field,
      element("div", { class: "bar" }, element("button", { type: "submit" }, "Send"), element("button", { type: "button", class: "quiet", onclick: back }, "Cancel")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const question = field.value.trim();
      if (question === turn.question || !question) back();
      else acts.edit(turn, question);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        back();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === field) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.asked.replaceChildren(form);
    field.focus();
  }

  get how() {
    return { room: $("conversation"), documents: textsOf(this.turn), raced: Boolean(this.race) };
  }

  // Regions of a page have names of their own.
  titleOf(title) {
    return `${title} ${this.number}`;
  }

  clear() {
    this.race?.root.remove();
    this.race = null;
    this.answers.classList.remove("two");
    this.answers.replaceChildren();
  }

  // Two lanes from the start; the second says what it waits for.
  beginRace(way) {
    this.race = new Race(way);
    this.answers.before(this.race.root);
    this.answers.classList.add("two");
    this.waits = element("section", { "aria-label": this.titleOf("One piece") }, lane("One piece"),
      element("p", { class: "lane-waits" }, "Starts when the other is done: together they would slow each other."));
  }

  // A view for an answer that begins. `name` heads its lane in a race.
  begin(title, announce, name = null) {
    const view = new AnswerView(this.titleOf(title), { ...this.how, announce });
    if (name) view.root.prepend(lane(name));
    this.waits?.remove();
    this.answers.append(view.root);
    if (this.race && !this.answers.children[1]) this.answers.append(this.waits);
    return view;
  }

  endRace() {
    this.race?.root.remove();
    this.race = null;
    this.waits?.remove();
    this.answers.classList.remove("two");
    this.answers.querySelector(".lane")?.remove();
  }

  // What is kept of the question's answers.
  showStored() {
    this.clear();
    const answer = shownAnswer(this.turn) ?? { text: "", branches: [], stopped: "There is no answer: the page was left." };
    try {
      this.showWhole(answer);
    } catch { // of another version, or out of a file that somebody changed
      this.clear();
      AnswerView.of(this.titleOf("Answer"), { text: answer.text, branches: [], stopped: "Its figures cannot be shown." }, this.answers, this.how);
    }
    this.addActions();
  }

  showWhole(answer) {
    const direct = answer.direct ?? answer.straight; // as it was called before
    if (!direct) return void AnswerView.of(this.titleOf("Answer"), answer, this.answers, this.how);
    this.beginRace(routeOf(answer.route).way);
    const first = AnswerView.of(this.titleOf("Answer"), answer, this.answers, this.how);
    first.root.prepend(lane("In parallel"));
    const second = AnswerView.of(this.titleOf("One piece"), direct, this.answers, this.how);
    second.root.prepend(lane("One piece"));
    this.race.decide(answer, direct);
  }

  addActions() {
    const { turn, acts } = this;
    const actions = this.answers.querySelector(".actions");
    actions.append(element("button", { type: "button", class: "quiet retry", onclick: () => acts.retry(turn) }, sign("retry"), "Retry"));
    if (!shownAnswer(turn)?.stopped) actions.append(element("button", { type: "button", class: "quiet", onclick: () => saveAnswer(turn) }, sign("save"), "Save as a page"));
    if (turn.answers.length > 1) actions.append(pages("answer", shownIndex(turn), turn.answers.length, (at) => acts.toAnswer(turn, at)));
  }
}

const lane = (name) => element("h3", { class: "lane" }, name);

// "1/2", and a way to each side.
function pages(what, at, count, turnTo) {
  const button = (sign, label, to) => element("button", { type: "button", class: "quiet", "aria-label": `${label} ${what}`, disabled: to < 0 || to >= count, onclick: () => turnTo(to) }, sign);
  return element("span", { class: "pages", role: "group", "aria-label": `Which ${what} is shown` },
    button("‹", "Previous", at - 1), element("span", {}, `${at + 1}/${count}`), button("›", "Next", at + 1));
}
