// The parts of an answer while they are written. Each is where its paragraph will be, in the same type and width:
// points row by row, in two columns where the page has room for them, sections below each other. The first that is not complete is seen whole and grows, as
// do those next to and before it: what is read has nothing above it that grows. Of the others the first lines are seen,
// whole, and after them an ellipsis on a line of its own. No part takes more room than its text does, so nothing closes at
// the end. Below each title grows its bar, on one axis with the others.

import { element } from "../element.js";
import { headingOf, rendered, soFar } from "../markdown.js";
import { asSentence, stateOf } from "../words.js";
import { lane } from "./timeline.js";
import { afterName } from "./unwritten.js";

const FEWEST_ROWS = 1, MOST_ROWS = 5; // of the text of a part that is not read yet, before its ellipsis
const AROUND = 56; // pixels of a part in addition to its text: its title, and the gap to the next

export class Cards {
  // `room` is what scrolls: the parts share out what can be seen of it, however it is turned. `others`: they are several
  // answers, not parts of one. `headed`: they are under headings, as in the answer, with no numbers.
  constructor(room, { others = false } = {}) {
    Object.assign(this, { room, others, headed: false });
    this.made = new Map();
    this.turned = new ResizeObserver(() => this.share());
    this.root = element("div", { class: `cards${others ? " others" : ""}`, role: "group", "aria-label": others ? "Answers to choose from" : "Parts of the answer", hidden: true });
  }

  // parts: all of them, in reading order; isNew: whether something of one has changed.
  // now: seconds since the question was sent, while they are written.
  show(parts, isNew = () => true, now = null) {
    parts.forEach((part, index) => isNew(part) && this.write(part, this.made.get(part.id) ?? this.make(part, index)));
    if (now != null) parts.forEach((part) => this.made.get(part.id).bar.replaceChildren(lane(part, now)));
    if (!this.others) this.open(parts);
  }

  write(part, card) {
    const chosen = part.chosen ? " chosen" : "";
    card.root.className = `card ${part.state}${chosen}`;
    if (card.shown !== part.text) {
      const text = afterName(part.title ?? "", part.text) ?? part.text;
      card.text.replaceChildren(rendered(part.ended == null ? soFar(text) : text));
      card.shown = part.text;
    }
    if (!this.headed) card.title.textContent = part.title || card.name;
    else if (card.heading !== part.title) card.title.replaceChildren(...headingOf(card.heading = part.title));
    const words = part.text ? part.text.trim().split(/\s+/).length : 0;
    const counts = `${words.toLocaleString()} ${words === 1 ? "word" : "words"}`;
    const failed = part.error && (part.discarded ? asSentence(part.error) : `Failed: ${part.error}`);
    const when = !this.others && part.first != null && part.ended != null ? `${part.first.toFixed(1)} to ${part.ended.toFixed(1)} s` : "";
    card.state.textContent = failed || (part.note ?? (when || (words ? counts : stateOf(part.state))));
    card.state.title = when ? counts : stateOf(part.state);
  }

  // Down to the row of the first part that is not complete, all text is seen.
  open(parts) {
    const unfinished = parts.findIndex((part) => part.ended == null);
    const closed = unfinished < 0 ? parts.length : (Math.floor(unfinished / this.columns) + 1) * this.columns; // the first
    const heights = parts.map((part) => heightOf(this.made.get(part.id).text)); // read before anything is changed
    parts.forEach((part, index) => {
      const { root, text } = this.made.get(part.id);
      const isOpen = index < closed;
      const isMore = !isOpen && heights[index] > this.least + this.row + 2; // one line more takes the room of the ellipsis
      const height = isMore ? `${this.least}px` : "";
      if (text.style.height !== height) text.style.height = height;
      text.classList.toggle("closed", !isOpen);
      root.classList.toggle("more", isMore);
    });
  }

  make(part, index) {
    const name = part.title || `Part ${index + 1}`;
    const title = this.headed ? element("h4", { dir: "auto", "aria-level": "3" }) : element("h3", { dir: "auto" }, name);
    this.root.classList.toggle("sections", this.headed);
    const text = element("div", { class: "text", tabindex: "0", role: "group", "aria-label": `Text of ${name}` });
    const state = element("span", { class: "state-text" });
    const bar = element("div", { class: "lane-of" });
    const root = element("div", { role: "group", "aria-label": name },
      this.headed ? null : element("span", { class: "number", "aria-hidden": "true" }, String(index + 1)), title, bar, text,
      element("p", { class: "state" }, state));
    const card = { root, name, title, bar, text, state, shown: null };
    this.made.set(part.id, card);
    this.root.append(root);
    this.root.hidden = false;
    if (this.others) return card;
    this.share();
    this.turned.observe(this.room);
    return card;
  }

  // How high the text of a part is that is not read yet: what the view allows for all of them, within reason.
  share() {
    const { lineHeight, gridTemplateColumns } = getComputedStyle(this.root);
    this.row = parseFloat(lineHeight);
    this.columns = gridTemplateColumns.split(" ").length;
    const top = this.root.getBoundingClientRect().top - this.room.getBoundingClientRect().top;
    const free = this.room.clientHeight - Math.max(0, Math.min(top, this.room.clientHeight / 2));
    const each = free / Math.ceil(Math.max(3, this.made.size) / this.columns) - AROUND;
    const rows = Math.min(MOST_ROWS, Math.max(FEWEST_ROWS, Math.floor(each / this.row) - 1));
    this.least = rows * this.row;
  }

  // The place of each part, by its id; the parts are removed.
  leave() {
    this.turned.disconnect();
    const places = new Map([...this.made].map(([id, card]) => [id, card.root.getBoundingClientRect()]));
    this.root.hidden = true;
    this.root.replaceChildren();
    this.made.clear();
    return places;
  }
}

// Of what it holds, whatever its own height is now.
function heightOf(text) {
  const last = text.lastElementChild;
  return last ? Math.ceil(last.getBoundingClientRect().bottom - text.getBoundingClientRect().top + text.scrollTop) : 0;
}
