// Answers of which one is shown, or out of which one is put together: samples that vote, proposals of several models, the
// models of a ladder. They are side by side while they are written, and after the answer in a fold.

import { element } from "../element.js";
import { counted, endOf } from "../words.js";
import { Cards } from "./cards.js";

const NOUNS = { sample: "sample", proposal: "proposal" };

// `way`: how the answer is written, where several models answer one after the other.
export const isOther = (branch, way) => branch.kind in NOUNS || (way === "cascade" && branch.kind === "direct");

// "5 samples, 4 agree": what the fold says.
export function wordsOf(others, agreement) {
  const [{ kind }] = others;
  const many = counted(others.length, NOUNS[kind] ?? "model");
  if (!(kind in NOUNS)) return `${many} asked`;
  if (kind === "proposal") return `${many}, put together`;
  if (!agreement) return many;
  if (agreement.by === "similarity") return `${many}, the one most like the others`;
  if (agreement.by === "judge") return `${many}, the judge's choice`;
  return agreement.most > 1 ? `${many}, ${agreement.most} agree` : `${many}, none agree`;
}

// The fold, with a card for each.
export function folded(others, text, agreement, room) {
  const cards = new Cards(room, { others: true });
  const shown = others.find((each) => each.text.trim() && each.text.trim() === text.trim());
  cards.show(others.map((each) => ({ ...each, chosen: each === shown, title: titleOf(each), state: endOf(each) })));
  return element("details", { class: "folded others-of" }, element("summary", {}, wordsOf(others, agreement)), cards.root);
}

export const titleOf = (branch) => branch.title || branch.model || branch.id;
