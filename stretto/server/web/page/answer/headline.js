// The headline of an answer: two lines of one height from the first moment to the last, and at the end next to them a
// picture of what one piece would have taken. It opens into the timeline, why the answer was written in this way, and what
// it took.

import { element } from "../element.js";
import { both, overview, timeline } from "./timeline.js";

const LEGEND = [["writing", "being written"], ["silent", "waiting for the first word"], ["waiting", "next in line"], ["failed", "failed"]];

export class Headline {
  constructor() {
    this.lead = element("span", { class: "lead" });
    this.detail = element("span", { class: "detail" });
    this.small = element("span", { class: "small" });
    this.route = element("p", { class: "route" });
    this.known = element("p", { class: "dim" });
    this.picture = element("div");
    this.figures = element("p", { class: "figures" });
    const legend = element("ul", { class: "legend", "aria-label": "What the bars mean" }, ...LEGEND.map(([kind, words]) => element("li", { class: kind }, words)));
    this.summary = element("summary", {}, element("span", {}, this.lead, this.detail), this.small);
    this.root = element("details", { class: "pulse" }, this.summary,
      element("div", { class: "inside" }, this.route, this.known, this.picture, legend, this.figures));
    this.drawn = null;
    this.root.addEventListener("toggle", () => this.drawWhole());
  }

  // kind: "bad" where something failed. known: how the figure is known.
  say(lead, detail = "", { kind = "", known = "" } = {}) {
    if (this.lead.textContent !== lead) this.lead.textContent = lead;
    if (this.detail.textContent !== detail) this.detail.textContent = detail;
    this.root.classList.toggle("bad", kind === "bad");
    this.known.textContent = known;
    this.known.hidden = !known;
    if (known) this.summary.title = known;
  }

  draw(rows, now, scale) {
    this.drawn = { rows, now, scale };
    this.drawWhole();
  }

  // There will be bars: their room is there before anything is read below it.
  reserve() {
    this.root.classList.add("parallel");
  }

  // All parts as bars, where the page is small. axis: that of the bars below their titles.
  show(parts, now, axis) {
    this.reserve();
    this.small.replaceChildren(overview(parts, now, axis));
  }

  // seconds: that it took, and that one piece would have taken.
  compare(seconds, onePiece) {
    this.reserve();
    this.small.replaceChildren(both(seconds, onePiece));
  }

  drawWhole() {
    if (!this.root.open || !this.drawn) return;
    const { rows, now, scale } = this.drawn;
    this.picture.replaceChildren(timeline(rows, now, { ...scale, room: this.picture.clientWidth }));
  }
}
