// What a rewritten text has that its source had not: how many places, and the words of each, alike ones once.

import { element } from "../element.js";
import { counted } from "../words.js";

const MOST = 200; // changes that are listed
const LONGEST = 300; // characters of one

const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

// The fold, or nothing. Each change is text, whatever it says.
export function changed(edits) {
  if (!edits.length) return null;
  const alike = new Map();
  for (const { old, new: now } of edits) {
    const key = JSON.stringify([old, now]);
    alike.set(key, { old, now, times: (alike.get(key)?.times ?? 0) + 1 });
  }
  const rows = [...alike.values()].slice(0, MOST).map(({ old, now, times }) =>
    element("li", {}, old ? element("del", { dir: "auto" }, short(old)) : null, old && now ? " → " : null, now ? element("ins", { dir: "auto" }, short(now)) : null, times > 1 ? ` (${times} times)` : null));
  if (alike.size > MOST) rows.push(element("li", {}, `and ${(alike.size - MOST).toLocaleString()} more`));
  return element("details", { class: "folded changes" }, element("summary", {}, `Changed in ${counted(edits.length, "place")}`), element("ul", {}, ...rows));
}
