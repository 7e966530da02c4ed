// One answer on the page: its route, its points side by side, the text they settle into, and what happened when.

import { copyButton, rendered } from "./markdown.js";
import { timeline } from "./timeline.js";
import { withUnwritten } from "./unwritten.js";

const FRAME_MS = 120; // between two drawings while text arrives
const REST = 3; // times as long as a drawing took, until the next: a long answer leaves the page time for its reader
const SAYING_MS = 2_000; // between two words on how many parts there are
const PARTS = new Set(["point", "item", "piece"]);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export class AnswerView {
  // `announce` is told what a person who does not see the page should hear; it is not told the text.
  constructor(title, announce = () => {}) {
    this.announce = announce;
    this.text = "";
    this.answer = null;
    this.branches = new Map();
    this.passages = [];
    this.began = performance.now();
    this.routeLine = element("p", { class: "route" });
    this.strip = element("div", { class: "strip", role: "img", hidden: true });
    this.cards = element("div", { class: "cards", role: "group", "aria-label": "Parts of the answer", hidden: true });
    this.body = element("div", { class: "text" });
    this.figures = element("p", { class: "figures" });
    this.notes = element("div");
    this.picture = element("div");
    this.details = element("details", {}, element("summary", {}, "What ran when"), this.picture);
    this.details.open = true;
    this.details.hidden = true;
    this.actions = element("div", { class: "bar actions" });
    this.root = element("section", { "aria-label": title, "aria-busy": "true" },
      this.routeLine, this.strip, this.cards, this.body, this.figures, this.notes, this.details, this.actions);
    this.dirty = new Set();
    this.drawnAt = this.restMs = this.saidAt = this.saidParts = 0;
    this.timer = setInterval(() => this.draw(), FRAME_MS);
  }

  static of(title, answer, room) {
    const view = new AnswerView(title);
    room.append(view.root);
    if (answer.route) view.showRoute(answer.route);
    if (answer.passages?.length) for (const record of answer.passages) view.passage(record, answer.passages.length);
    view.text = answer.text;
    if (answer.stopped) view.end({ stopped: answer.stopped, problem: answer.problem });
    else view.finish(answer);
    return view;
  }

  get seconds() {
    return (performance.now() - this.began) / 1000;
  }

  see(event) {
    switch (event.type) {
      case "route_chosen":
        this.showRoute(event.route);
        this.announce(`Answering with ${event.route.strategy}.`);
        break;
      case "outline_point_ready":
        this.branch(event.branch_id, "point", event.title);
        break;
      case "branch_started":
        Object.assign(this.branch(event.branch_id, event.kind, event.title), { started: this.seconds, state: "silent" });
        this.dirty.add(event.branch_id);
        break;
      case "branch_delta": {
        const branch = this.branch(event.branch_id, "", "");
        branch.first ??= this.seconds;
        branch.text += event.text;
        branch.state = "writing";
        this.dirty.add(event.branch_id);
        break;
      }
      case "branch_finished":
      case "branch_failed": {
        const told = event.branch;
        const branch = this.branch(told.id, told.kind, told.title);
        Object.assign(branch, { ended: this.seconds, text: told.text, error: told.error });
        branch.state = told.status;
        this.dirty.add(told.id);
        if (told.status === "failed") this.announce(`${told.title || told.id} failed.`);
        break;
      }
      case "passage_read":
        this.passage(event.record, event.total);
        break;
      case "text":
        this.text += event.text;
        this.dirty.add("text");
        break;
      case "answer_finished":
        this.finish(event.answer);
        this.announce(`The answer is complete, after ${event.answer.timeline.total_s.toFixed(1)} seconds.`);
        break;
    }
  }

  branch(id, kind, title) {
    if (!this.branches.has(id)) {
      this.branches.set(id, { id, kind, title, text: "", state: "waiting", needed: this.seconds, started: null, first: null, ended: null });
      this.dirty.add(id);
    }
    const branch = this.branches.get(id);
    branch.kind ||= kind;
    branch.title ||= title;
    return branch;
  }

  showRoute(route) {
    this.route = route;
    this.routeLine.replaceChildren(element("b", {}, route.strategy), ` on ${route.backend}: ${route.cause}`);
  }

  // The map of a long document: one mark a passage, in the order of the text, lit as it is read.
  passage(record, total) {
    this.passages.push(record);
    this.passages.sort((one, other) => one.document - other.document || one.start - other.start);
    const marks = this.passages.map((each) => element("span", { class: each.status !== "read" ? "unread" : each.informative ? "found" : "read" }));
    while (marks.length < total) marks.push(element("span"));
    this.strip.replaceChildren(...marks);
    this.strip.hidden = false;
    const found = this.passages.filter((each) => each.informative).length;
    this.strip.setAttribute("aria-label", `${this.passages.length} of ${total} passages read, ${found} of them hold something for the question`);
  }

  // While it is written: the points side by side, or the text where there are none.
  draw() {
    const began = performance.now();
    if (began - this.drawnAt < this.restMs) return;
    const parts = this.parts;
    if (parts.length > 1 && parts.length !== this.saidParts && began - this.saidAt > SAYING_MS) {
      this.announce(`${parts.length} parts so far.`);
      [this.saidAt, this.saidParts] = [began, parts.length];
    }
    if (parts.length) {
      this.cards.hidden = false;
      for (const branch of parts) if (this.dirty.has(branch.id)) this.card(branch);
    } else if (this.dirty.has("text")) {
      this.body.replaceChildren(rendered(this.text));
    }
    if (this.dirty.size || this.branches.size) this.plot();
    this.dirty.clear();
    this.figures.textContent = `${this.seconds.toFixed(1)} s`;
    this.drawnAt = performance.now();
    this.restMs = REST * (this.drawnAt - began);
  }

  get parts() {
    return [...this.branches.values()].filter((branch) => PARTS.has(branch.kind));
  }

  card(branch) {
    const states = { waiting: "waits for its turn", silent: "waits for the first text", writing: "writes", finished: "done", failed: "failed" };
    if (!branch.card) {
      branch.card = element("div", { role: "group", tabindex: "0", "aria-label": branch.title || branch.id },
        element("h3", { dir: "auto" }, branch.title || branch.id), element("div", { class: "text" }), element("p", { class: "state" }));
      this.cards.append(branch.card);
    }
    branch.card.className = `card ${branch.state}`;
    const [, text, state] = branch.card.children;
    const atEnd = branch.card.scrollHeight - branch.card.scrollTop - branch.card.clientHeight < 40;
    text.replaceChildren(rendered(branch.text));
    state.textContent = branch.error ? `failed: ${branch.error}` : states[branch.state];
    if (atEnd && branch.state === "writing") branch.card.scrollTop = branch.card.scrollHeight;
  }

  plot() {
    const rows = [...this.branches.values()].map((branch) => ({ ...branch, name: branch.title || branch.id, failed: branch.state === "failed" }));
    if (!rows.length) return;
    this.details.hidden = false;
    this.picture.replaceChildren(timeline(rows, this.seconds, this.root.clientWidth));
  }

  finish(answer) {
    this.answer = answer;
    this.text = answer.text;
    this.settle();
    const rows = answer.branches.map((branch) => ({
      name: branch.title || branch.id, needed: branch.span.needed_s, started: branch.span.started_s,
      first: branch.span.first_s, ended: branch.span.ended_s, failed: branch.status === "failed",
    }));
    if (rows.length) {
      this.details.hidden = false;
      this.details.open = rows.length > 1;
      this.picture.replaceChildren(timeline(rows, answer.timeline.total_s, this.root.clientWidth));
    }
    this.figures.replaceChildren(...figuresOf(answer));
    this.note(answer.warnings);
    if (answer.citations?.length) this.notes.append(citationsOf(answer.citations));
  }

  // It ended before it was complete: what is there stays, the parts whose turn had not come included.
  end({ stopped, problem }) {
    this.text = this.whatIsThere();
    this.settle();
    this.figures.textContent = stopped;
    if (problem) this.notes.append(element("p", { class: "problem", role: "alert" }, problem));
  }

  settle() {
    clearInterval(this.timer);
    this.root.setAttribute("aria-busy", "false");
    this.cards.hidden = true;
    this.cards.replaceChildren();
    this.body.classList.add("settled");
    this.body.replaceChildren(rendered(this.text));
    if (this.text) this.actions.prepend(copyAnswer(() => this.text));
  }

  note(warnings) {
    if (warnings?.length) this.notes.append(element("ul", { class: "warnings" }, ...warnings.map((warning) => element("li", {}, warning))));
  }

  // The text so far, and behind it what is not in it yet of the parts.
  whatIsThere() {
    return withUnwritten(this.text, this.parts.filter((part) => part.text));
  }

  // What belongs into the history.
  record() {
    return this.answer ?? { text: this.whatIsThere(), route: this.route ?? null, branches: [], stopped: this.figures.textContent };
  }
}

function copyAnswer(text) {
  const button = copyButton(text, "Copy the answer");
  button.className = "quiet";
  return button;
}

function figuresOf(answer) {
  const first = answer.timeline.first_text_s;
  const usage = answer.usage;
  const parts = [
    `${answer.timeline.total_s.toFixed(2)} s` + (first == null ? "" : `, first text after ${first.toFixed(2)} s`),
    `${usage.prompt_tokens.toLocaleString()} tokens in, ${usage.completion_tokens.toLocaleString()} out`,
    `${usage.calls} ${usage.calls === 1 ? "call" : "calls"}`,
  ];
  if (answer.cost?.usd) parts.push(`$${answer.cost.usd.toPrecision(3)}`);
  else if (!answer.cost) parts.push("cost unknown");
  const line = [parts.join(" · ")];
  const saved = estimated(answer);
  if (saved) line.push(" · ", element("span", { title: "The times that the parts took to be written, one after another, over the time of the answer." }, saved));
  return line;
}

// Straight generation would write the same parts one after another. An estimate: parts that run together slow each other.
function estimated(answer) {
  const parts = answer.branches.filter((branch) => PARTS.has(branch.kind) && branch.span.first_s != null && branch.status === "finished");
  if (parts.length < 2) return null;
  const one = parts.reduce((sum, branch) => sum + branch.span.ended_s - branch.span.first_s, answer.timeline.first_text_s ?? 0);
  const times = one / answer.timeline.total_s;
  return times > 1.05 ? `estimated ${times.toFixed(1)} times as fast as straight on (its parts one after another)` : null;
}

export function comparison(answer, straight) {
  const times = straight.timeline.total_s / answer.timeline.total_s;
  const said = times >= 1 ? `${times.toFixed(1)} times as fast as` : `${(1 / times).toFixed(1)} times as slow as`;
  return element("p", { class: "figures" }, element("b", {}, `Measured: ${said} straight generation`),
    ` (${answer.timeline.total_s.toFixed(2)} s and ${straight.timeline.total_s.toFixed(2)} s, ` +
    `${answer.usage.completion_tokens.toLocaleString()} and ${straight.usage.completion_tokens.toLocaleString()} tokens).`);
}

function citationsOf(citations) {
  const items = citations.map((citation) => element("li", citation.number ? { value: citation.number } : {}, element("b", {}, citation.label), ` “${citation.quote}”`));
  return element("details", {}, element("summary", {}, `${citations.length} places in the documents`), element("ol", {}, ...items));
}
