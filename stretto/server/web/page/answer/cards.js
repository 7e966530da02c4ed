// The parts of an answer while they are written, side by side. A card keeps its place and its height, and its text begins
// at the top and stays there: who reads in it is not moved. What has no room can be scrolled to.

import { element } from "../element.js";
import { rendered } from "../markdown.js";
import { stateOf } from "../words.js";

const LEAST_ROWS = 2; // that the view is shared out to, before more are known
const LOWEST = 168, HIGHEST = 260; // pixels of a card: four lines of its text are seen
const GAP = 12;
const VOICES = 8;

export const voiceOf = (index) => (index % VOICES) + 1;

export class Cards {
  // `room` is what scrolls: the cards share out what can be seen of it.
  constructor(room) {
    this.room = room;
    this.made = new Map();
    this.root = element("div", { class: "cards", role: "group", "aria-label": "Parts of the answer", hidden: true });
  }

  show(part, index) {
    const card = this.made.get(part.id) ?? this.make(part, index);
    card.root.className = `card voice-${voiceOf(index)} ${part.state}`;
    if (card.shown !== part.text) {
      card.text.replaceChildren(rendered(part.text));
      card.shown = part.text;
    }
    const words = part.text ? part.text.trim().split(/\s+/).length : 0;
    card.state.textContent = part.error ? `Failed: ${part.error}` : stateOf(part.state) + (words ? ` · ${words.toLocaleString()} ${words === 1 ? "word" : "words"}` : "");
  }

  make(part, index) {
    const title = element("h3", { dir: "auto" }, part.title || `Part ${index + 1}`);
    const text = element("div", { class: "text", tabindex: "0", role: "group", "aria-label": `Text of ${part.title || `part ${index + 1}`}` });
    const state = element("p", { class: "state" });
    const root = element("div", { role: "group", "aria-label": part.title || `Part ${index + 1}` },
      element("span", { class: "number", "aria-hidden": "true" }, String(index + 1)), title, text, state);
    const card = { root, text, state, shown: null };
    this.made.set(part.id, card);
    this.root.append(root);
    this.root.hidden = false;
    this.share();
    return card;
  }

  // As high as the view allows for all rows of them, within reason.
  share() {
    const columns = getComputedStyle(this.root).gridTemplateColumns.split(" ").length;
    const rows = Math.max(columns > 1 ? LEAST_ROWS : 4, Math.ceil(this.made.size / columns));
    const top = this.root.getBoundingClientRect().top - this.room.getBoundingClientRect().top;
    const free = this.room.clientHeight - Math.max(0, Math.min(top, this.room.clientHeight / 2)) - GAP * rows;
    this.root.style.setProperty("--card", `${Math.round(Math.min(HIGHEST, Math.max(LOWEST, free / rows)))}px`);
  }

  // Where each card stands, by the id of its part; the cards go.
  leave() {
    const places = new Map([...this.made].map(([id, card]) => [id, card.root.getBoundingClientRect()]));
    this.root.hidden = true;
    this.root.replaceChildren();
    this.root.removeAttribute("style");
    this.made.clear();
    return places;
  }
}
