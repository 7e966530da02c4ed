// The map of long documents: a mark for each passage in the order of the text, lit as it is read.

import { element } from "../element.js";

const MOST_MARKS = 600; // beyond, the words say it

export class Strip {
  constructor() {
    this.passages = [];
    this.total = 0;
    this.root = element("div", { class: "strip", role: "img", hidden: true });
  }

  add(record, total) {
    this.passages.push(record);
    this.passages.sort((one, other) => one.document - other.document || one.start - other.start);
    this.total = total;
  }

  get words() {
    const useful = this.passages.filter((each) => each.isUseful).length;
    return `${this.passages.length} of ${this.total} passages read, ${useful} useful`;
  }

  draw() {
    if (!this.passages.length) return;
    const marks = this.passages.slice(0, MOST_MARKS).map((each) => element("span", { class: !each.wasRead ? "unread" : each.isUseful ? "found" : "read" }));
    while (marks.length < Math.min(this.total, MOST_MARKS)) marks.push(element("span"));
    this.root.replaceChildren(...marks);
    this.root.setAttribute("aria-label", this.words);
    this.root.hidden = false;
  }
}
