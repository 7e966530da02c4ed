// One answer on the page: its headline, its parts side by side, the text they become, and what there is to know of it.

import { element } from "../element.js";
import { answerOf, eventOf, routeOf } from "../fields.js";
import { copyButton, rendered, soFar } from "../markdown.js";
import { sign } from "../signs.js";
import { asSentence, counted, endOf, nameOf, rowOf, seconds, times } from "../words.js";
import { Cards } from "./cards.js";
import { changed } from "./changes.js";
import { cited, withoutMarks } from "./citations.js";
import { gainOf, isPart, loadingOf } from "./gain.js";
import { Headline } from "./headline.js";
import { folded, isOther, titleOf } from "./others.js";
import { asLines, fieldsText, isBegun, isOfRecord, isRecord, recordSoFar } from "./record.js";
import { asPoints, headingsOf, inColumns, keepBars, paragraphsOf, settle } from "./settling.js";
import { Strip } from "./strip.js";
import { axisEnd } from "./timeline.js";
import { withUnwritten } from "./unwritten.js";

const FRAME_MS = 120; // between two drawings while text arrives
const REST = 3; // times as long as a drawing took, until the next: a long answer leaves the page time for its reader
const ANNOUNCING_MS = 2_000; // between two words on how many parts there are

export class AnswerView {
  // `room` is what scrolls; `raced`: another answer is next to it. `announce` receives what a screen reader should say, which is not the text.
  constructor(title, { room, documents = [], raced = false, announce = () => {} }) {
    Object.assign(this, { room, documents, raced, announce });
    this.text = this.thoughts = this.before = ""; // `before`: what was written before the first part
    this.answer = this.route = this.reportedRoute = this.outcome = null;
    this.schema = null; // of a record
    this.loading = "";
    this.waiting = "";
    this.branches = new Map();
    this.changes = []; // of a text that was rewritten by edits
    this.began = performance.now();
    this.axis = axisEnd(0);
    this.headline = new Headline();
    this.strip = new Strip();
    this.cards = new Cards(room);
    this.others = new Cards(room, { others: true });
    this.body = element("div", { class: "text" });
    this.lead = leafOf("lead-in"); // the text before the parts
    this.tail = leafOf("lead-out"); // the closing of a plan, which is there before its sections
    this.leaf = element("div", { class: "leaf" }, this.body);
    this.thinking = element("details", { class: "folded", hidden: true }, element("summary", {}, "Reasoning"), element("div", { class: "thought dim" }));
    this.notes = element("div");
    this.actions = element("div", { class: "bar actions" });
    this.root = element("section", { class: "answer", "aria-label": title, "aria-busy": "true" },
      this.headline.root, this.strip.root, this.thinking, this.others.root, this.lead, this.cards.root, this.tail, this.leaf, this.notes, this.actions);
    this.dirty = new Set();
    this.drawnAt = this.restMs = this.announcedAt = this.announcedParts = 0;
    this.headline.say("Connecting", "");
    this.timer = setInterval(() => this.draw(), FRAME_MS);
  }

  static of(title, answer, place, how) {
    const view = new AnswerView(title, how);
    place.append(view.root);
    if (answer.route) view.showRoute(routeOf(answer.route));
    view.text = answer.text;
    if (answer.stopped) view.end({ stopped: answer.stopped, problem: answer.problem });
    else view.finish(answer);
    return view;
  }

  get seconds() {
    return (performance.now() - this.began) / 1000;
  }

  see(raw) {
    const event = eventOf(raw);
    switch (event.type) {
      case "route_chosen":
        this.reportedRoute = raw.route;
        this.showRoute(event.route);
        this.announce(`The answer is written: ${nameOf(event.route.way)}.`);
        break;
      case "section_planned":
        this.branch(event.id, "section", event.title);
        break;
      case "branch_started":
        if (event.kind === "direct") this.turnStraight();
        if (event.kind === "plan" || event.kind === "outline") this.headline.reserve();
        Object.assign(this.branch(event.id, event.kind, isOfRecord(event) ? rowOf(event) : event.title), { started: this.seconds, state: "silent" });
        this.dirty.add(event.id);
        break;
      case "branch_delta": {
        const branch = this.branch(event.id, "", "");
        branch.first ??= this.seconds;
        branch.received = (branch.received ?? "") + event.text;
        branch.text = readOf(branch, branch.received);
        branch.state = "writing";
        this.dirty.add(event.id);
        break;
      }
      case "branch_finished":
      case "branch_failed": {
        const written = event.branch;
        const branch = this.branch(written.id, written.kind, written.title);
        Object.assign(branch, { ended: this.seconds, received: written.text, text: readOf(written, written.text), error: written.error, failed: written.failed, discarded: written.discarded, model: written.model, state: endOf(written) });
        this.dirty.add(written.id);
        if (written.failed) this.announce(`${written.title || written.id} failed.`);
        break;
      }
      case "vote_counted":
        this.branch(event.id, "sample", "").note = `Says: ${event.vote}`;
        this.dirty.add(event.id);
        break;
      case "passage_read":
        this.strip.add(event.record, event.total);
        this.dirty.add("strip");
        break;
      case "text_edited":
        this.changes.push(event.edit);
        break;
      case "reasoning":
        this.thoughts += event.text;
        this.dirty.add("reasoning");
        break;
      case "text": {
        const isFirst = !this.text;
        this.text += event.text;
        this.dirty.add("text");
        if (isFirst) this.drawAtOnce();
        break;
      }
      case "answer_finished":
        this.finish(event.answer);
        this.announce(`The answer is complete, after ${this.outcome.seconds.toFixed(1)} seconds. ${this.headline.lead.textContent}.`);
        break;
    }
  }

  branch(id, kind, title) {
    if (!this.branches.has(id)) {
      if (isShown({ kind }) && !this.parts.length) [this.before, this.cards.headed] = [this.text, kind === "section" && this.isRunning("plan")];
      this.branches.set(id, { id, kind, title, text: "", state: "waiting", needed: this.seconds, started: null, first: null, ended: null });
      this.dirty.add(id);
    }
    const branch = this.branches.get(id);
    branch.kind ||= kind;
    branch.title ||= title;
    return branch;
  }

  // A model wrote no plan or field that can be used: what was announced of it is not written, and its text goes on.
  turnStraight() {
    const plan = [...this.branches.values()].find((branch) => branch.kind === "plan" || branch.kind === "outline");
    const isPlanned = plan?.ended == null || this.parts.some((part) => part.first != null && !part.discarded);
    if (isPlanned && !this.parts.some(isOfRecord)) return;
    for (const part of this.parts) this.branches.delete(part.id);
    this.cards.leave();
    for (const leaf of [this.lead, this.tail]) leaf.hidden = true;
    this.dirty.add("text");
  }

  showRoute(route) {
    this.route = route;
    this.axis = axisEnd(route.onePiece ?? 0, this.axis);
    this.sayRoute(route.way);
  }

  // Why it is written in this way; and in which way it was, where that is another one than was planned.
  sayRoute(way) {
    const reason = this.route.reason.replace(/^Asked for by the caller/, "You chose it");
    const other = way && way !== this.route.way ? ` It was written otherwise in the end: ${nameOf(way)}.` : "";
    this.headline.route.replaceChildren(element("b", {}, nameOf(this.route.way)), `: ${reason}${other} `, element("span", { class: "dim" }, this.route.model));
  }

  // Whether a branch of this kind is being written.
  isRunning(kind) {
    return [...this.branches.values()].some((branch) => branch.kind === kind && branch.ended == null);
  }

  get parts() {
    return [...this.branches.values()].filter(isShown);
  }

  get candidates() {
    return [...this.branches.values()].filter((branch) => isOther(branch, this.route?.way));
  }

  // While it is written: its points, several answers side by side until one is begun, or the text.
  draw() {
    const began = performance.now();
    if (began - this.drawnAt < this.restMs) return;
    const parts = this.parts;
    if (parts.length > 1 && parts.length !== this.announcedParts && began - this.announcedAt > ANNOUNCING_MS) {
      this.announce(`${counted(parts.length, "part")} so far.`);
      [this.announcedAt, this.announcedParts] = [began, parts.length];
    }
    if (this.dirty.has("strip")) this.strip.draw();
    if (this.dirty.has("reasoning")) this.showThoughts();
    const candidates = this.candidates, now = this.seconds;
    this.axis = axisEnd(now, this.axis);
    if (parts.length) {
      this.showAround();
      this.cards.show(parts, (part) => this.dirty.has(part.id), now);
      this.headline.show(parts, now);
    } else if (this.begun) {
      if (candidates.length > 1 && !this.fold) this.foldOthers(candidates);
      else this.others.leave();
      if (this.dirty.has("text") || this.schema) this.body.replaceChildren(this.schema && isBegun(this.begun) ? asLines(this.begun) : rendered(soFar(this.begun)));
    } else if (candidates.length) {
      this.others.show(candidates.map((each) => ({ ...each, title: titleOf(each) })), (each) => this.dirty.has(each.id), now);
    }
    this.plot();
    this.headline.say(...this.doing(parts, candidates));
    this.dirty.clear();
    this.drawnAt = performance.now();
    this.restMs = REST * (this.drawnAt - began);
  }

  // The text so far. That of a record comes when the whole was checked: what its call has written is shown before.
  get begun() {
    const direct = this.schema && !this.candidates.length ? [...this.branches.values()].find((branch) => branch.kind === "direct") : null;
    return this.text || direct?.received || "";
  }

  // What is waited for. What comes next need not rest for it.
  drawAtOnce() {
    this.draw();
    this.restMs = 0;
  }

  // Whether nothing has been written.
  get isSilent() {
    return ![...this.branches.values()].some((branch) => branch.first != null);
  }

  // What happens now, as the two lines of the headline.
  doing(parts, candidates) {
    const now = `${this.seconds.toFixed(1)} s`;
    if (this.strip.total && !parts.length) return [this.strip.words, now];
    const goesOn = [...this.branches.values()].some((branch) => branch.kind === "direct" && branch.state === "writing");
    const noun = parts.some(isOfRecord) ? "field" : "section";
    if (parts.length) return this.several(parts, noun, goesOn ? "What follows is being written" : `Putting the ${noun}s together`, now);
    if (candidates.length && !this.text) return this.several(candidates, "answer", "Choosing among the answers", now);
    if (this.loading && this.isSilent) return ["Loading the model", `${this.loading} · ${now}, not counted as writing`];
    if (!this.branches.size && !this.route) return ["Connecting", now];
    if (this.isRunning("plan") || this.isRunning("outline")) return ["Planning the sections", now];
    if (this.begun) return ["Being written", now];
    return ["Waiting for the first word", this.waiting && this.isSilent ? `${this.waiting} · ${now}` : now];
  }

  // How many of them are being written and done.
  several(all, noun, afterwards, now) {
    const written = all.filter((each) => each.started != null && each.ended == null).length;
    const done = all.filter((each) => each.ended != null).length;
    if (!written) return [done === all.length ? afterwards : this.isRunning("plan") ? `Planning ${counted(all.length, noun)}` : `${counted(all.length, noun)} begin`, now];
    if (done) return [`${counted(all.length, noun)}: ${done} done, ${written} being written`, now];
    return [written === 1 ? `Writing 1 ${noun}` : `Writing ${counted(written, noun)} at once`, now];
  }

  // What is above and below the parts, where it will stay.
  showAround() {
    this.body.replaceChildren();
    fill(this.lead, soFar(this.leading));
    fill(this.tail, this.closing);
  }

  // What was written before the first part: of a plan its opening, which may come a moment after the headings.
  get leading() {
    if (!this.cards.headed) return this.before;
    const [text, { title }] = [`\n${this.text}`, this.parts[0]];
    const at = [`\n## ${title}\n`, `\n1. **${title}**: `, `\n- **${title}**: `].map((label) => text.indexOf(label)).find((place) => place >= 0);
    return at === undefined ? this.text : this.text.slice(0, at);
  }

  get closing() {
    return withoutMarks(this.branches.get("closing")?.text ?? "");
  }

  // After the answer: what else was written.
  foldOthers(others, agreement = null) {
    this.others.leave();
    const fold = folded(others, this.text, agreement, this.room);
    fold.open = this.fold?.open ?? false;
    if (this.fold) this.fold.replaceWith(fold);
    else this.leaf.after(fold);
    this.fold = fold;
  }

  plot() {
    const rows = rowsOf([...this.branches.values()]);
    if (rows.length) this.headline.draw(rows, this.seconds, { axis: this.axis });
  }

  finish(raw) {
    const live = this.branches.size > 0;
    this.answer = this.changes.length ? { ...raw, changes: this.changes } : raw;
    const answer = (this.outcome = answerOf(this.answer));
    this.text = answer.text;
    this.cards.headed = answer.branches.some((branch) => branch.kind === "plan") && answer.branches.some(isSection) && /^## /m.test(answer.text); // no list
    this.settle(answer.branches.filter(isShown), answer.seconds);
    const others = answer.branches.filter((branch) => isOther(branch, answer.way)).map((branch) => ({ ...branch, note: this.branches.get(branch.id)?.note }));
    if (others.length > 1) this.foldOthers(others, answer.agreement);
    if (answer.passages.length) {
      this.strip.passages = answer.passages;
      this.strip.total = answer.passages.length;
      this.strip.draw();
    }
    const gain = this.raced ? null : gainOf(answer); // a race measures it
    this.route = answer.route; // whose reason says by now what came of it
    this.sayRoute(answer.way);
    this.sayOutcome(answer, gain);
    const end = Math.max(answer.seconds, gain?.onePiece ?? 0);
    this.axis = live ? axisEnd(end, this.axis) : end;
    if (gain) this.axis = Math.min(this.axis, end * 1.05);
    this.headline.draw(rowsOf(answer.branches), answer.seconds, { axis: this.axis, onePiece: gain?.onePiece ?? null });
    if (gain) this.headline.compare(gain.seconds, gain.onePiece);
    this.headline.figures.textContent = figuresOf(answer);
    this.note(answer.warnings);
    if (answer.changes.length) this.leaf.after(changed(answer.changes));
    if (answer.citations.length) this.notes.append(cited(this.body, this.leaf, answer.citations, answer.passages, this.documents));
  }

  sayOutcome(answer, gain) {
    const loading = loadingOf(answer);
    const waits = loading > 0.05 ? `, and ${seconds(loading)} to load the model` : "";
    const took = seconds(answer.seconds - loading);
    const parts = answer.branches.filter(isPart);
    if (answer.passages.length) this.headline.say(this.strip.words, `${took}${waits}`);
    else if (gain) {
      const asShown = (time) => Number.parseFloat(seconds(time)); // or the two figures would not give the third
      const faster = `About ${times(asShown(gain.onePiece) / asShown(gain.seconds))} times as fast: ${took}`;
      this.headline.say(faster, `In one piece about ${seconds(gain.onePiece)}, estimated${waits}`, { known: gain.known });
    }
    else if (parts.length > 1) this.headline.say(`Written in ${took}`, `${parts.length} parts at once${waits}`);
    else if (this.fold) this.headline.say(nameOf(answer.way), `${took}${waits}`);
    else this.headline.say(`Written in ${took}`, `in one piece${waits}`);
  }

  // It ended before it was complete: what is there stays, the parts whose turn had not come included.
  end({ stopped, problem }) {
    this.text = this.whatIsThere();
    this.settle(this.parts, this.seconds);
    this.stopped = stopped;
    const [lead, detail = ""] = stopped.split(/(?<=^Stopped) /);
    this.headline.say(lead, detail.replace(/\.$/, ""), { kind: problem ? "bad" : "" });
    if (!problem) return;
    this.headline.root.hidden = !this.text; // one sentence says it all
    const kept = this.text ? "What was written stays." : "Nothing was written.";
    this.notes.append(element("p", { class: "problem", role: "alert" }, `${asSentence(problem).replace(/(?<![.!?])$/, ".")} ${kept}`));
  }

  settle(parts, now) {
    clearInterval(this.timer);
    const places = this.cards.leave();
    this.others.leave();
    this.root.setAttribute("aria-busy", "false");
    for (const leaf of [this.lead, this.tail]) leaf.remove();
    const record = isRecord(this.text);
    this.body.replaceChildren(record ? asLines(this.text) : rendered(this.text));
    if (record && parts.length > 1) {
      this.headline.show(parts, now, now);
    } else if (this.cards.headed) {
      keepBars(headingsOf(this.body, parts), parts, now);
      this.headline.show(parts, now, now);
    } else if (parts.length > 1) {
      asPoints(this.body);
      const found = inColumns(paragraphsOf(this.body, parts), parts);
      keepBars(found, parts, now);
      this.headline.show(parts, now, now);
      settle(found, places);
    }
    this.showThoughts();
    if (this.text) this.actions.prepend(copyButton(() => this.text, "Copy the answer", { class: "quiet", sign: sign("copy") }));
  }

  showThoughts() {
    if (!this.thoughts) return;
    this.thinking.hidden = false;
    this.thinking.lastElementChild.replaceChildren(rendered(this.thoughts));
  }

  note(warnings) {
    if (warnings.length) this.notes.append(element("ul", { class: "warnings" }, ...warnings.map((warning) => element("li", {}, warning))));
  }

  // The text so far, and after it what is not in it yet of the parts; of several answers the longest.
  whatIsThere() {
    const record = this.schema ? recordSoFar([...this.branches.values()], this.text, this.schema) : "";
    if (record) return record;
    const [longest] = this.candidates.map((each) => each.text).sort((one, other) => other.length - one.length);
    if (!this.text && longest) return longest;
    return withUnwritten(this.text, [...this.parts, { text: this.closing }].filter((part) => part.text));
  }

  // What belongs into the history.
  record() {
    return this.answer ?? { text: this.whatIsThere(), route: this.reportedRoute, branches: [], stopped: this.stopped ?? "" };
  }
}

const isShown = (branch) => isPart(branch) || isOfRecord(branch);

// What is read of what a branch wrote.
const readOf = (branch, text) => (isOfRecord(branch) ? fieldsText(text) : isPart(branch) ? withoutMarks(text) : text);

const isSection = (branch) => branch.kind === "section" && !branch.discarded;

const leafOf = (name) => element("div", { class: `leaf ${name}`, hidden: true }, element("div", { class: "text" }));

function fill(leaf, text) {
  if (leaf.shown === text) return;
  leaf.shown = text;
  leaf.hidden = !text.trim();
  leaf.firstElementChild.replaceChildren(rendered(text));
}

// Of the timeline. A call that writes several points has no row, because its points have.
const rowsOf = (branches) => branches.filter((branch) => branch.kind !== "sections").map((branch) => ({ ...branch, name: rowOf(branch) }));

function figuresOf(answer) {
  const parts = [
    `${answer.seconds.toFixed(2)} s in all`,
    ...(answer.first == null ? [] : [`first text after ${answer.first.toFixed(2)} s`]),
    `${counted(answer.tokensRead, "token")} read, ${answer.tokensWritten.toLocaleString()} written`,
    counted(answer.calls, "call"),
  ];
  if (answer.dollars) parts.push(`$${answer.dollars.toPrecision(3)}`);
  return parts.join(" · ");
}
