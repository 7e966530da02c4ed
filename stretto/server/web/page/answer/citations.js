// The places in documents that an answer names: numbers in its text that open the passage next to it.

import { element } from "../element.js";
import { counted } from "../words.js";

// A part before it is put into the answer names what it rests on by marks, which become places there. The last one may
// have only begun.
const MARKS = / ?\[(?:cite|quoted|proof)[a-z]{0,2}[:# ]?[\d\s,;–-]*\]| ?\[[a-z]{0,9}[:# ]?[\d ,;–-]*$/gi;

export const withoutMarks = (text) => text.replace(MARKS, "");

// `documents` are those of the question, `passages` say what was quoted of each.
export function cited(body, leaf, citations, passages, documents) {
  const numbers = new Map(citations.map((citation, index) => [citation.label, citation.number ?? index + 1]));
  const nameOf = (citation) => placeOf(citation, documents[citation.document]?.text);
  const open = (citation, button) => {
    leaf.querySelector(".passage")?.remove();
    leaf.append(passage(citation, nameOf(citation), passages, documents, () => button.focus()));
    leaf.querySelector(".passage mark")?.scrollIntoView({ block: "nearest" });
    leaf.querySelector(".passage").focus({ preventScroll: true });
  };
  for (const citation of citations) number(body, citation, numbers.get(citation.label), nameOf(citation), open);
  const items = citations.map((citation) => {
    const button = element("button", { type: "button", class: "cite", onclick: () => open(citation, button) }, nameOf(citation));
    return element("li", { value: numbers.get(citation.label) }, button, ` “${short(citation.quote)}”`);
  });
  return element("details", { class: "folded" }, element("summary", {}, `${counted(citations.length, "place")} in the documents`), element("ol", {}, ...items));
}

const IN_CHARACTERS = /, chars \d+-\d+$/; // how a place is named in a document without pages
const HEADING = /^#{1,6} +(.+?)[ #]*$/gm;
const SIXTHS = ["at the beginning", "in the first half", "near the middle", "near the middle", "in the second half", "near the end"];

// Where a citation is, as a person says it: its page, the heading above it, or how far into the document that is.
export function placeOf({ label, start }, whole) {
  const name = label.replace(/^\[|\]$/g, "");
  if (!IN_CHARACTERS.test(name)) return name;
  const title = name.replace(IN_CHARACTERS, "");
  if (!whole) return title;
  const heading = [...whole.slice(0, start + 1).matchAll(HEADING)].at(-1)?.[1];
  const sixth = Math.min(SIXTHS.length - 1, Math.floor((start / whole.length) * SIXTHS.length));
  return `${title}, ${heading ? `under “${short(heading)}”` : SIXTHS[sixth]}`;
}

const AROUND = 240; // characters before and after what is cited

const short = (text) => (text.length > 240 ? `${text.slice(0, 239)}…` : text);

// Wherever its label occurs in the text, a button with its number replaces it.
function number(body, citation, value, name, open) {
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes(citation.label) && !walker.currentNode.parentElement.closest("button, pre")) found.push(walker.currentNode);
  for (const node of found) {
    const pieces = node.data.split(citation.label);
    const parts = pieces.flatMap((piece, index) => {
      if (!index) return [piece];
      const button = element("button", { type: "button", class: "cite", title: name, "aria-label": `Place ${value}: ${name}`, onclick: () => open(citation, button) }, String(value));
      return [button, piece];
    });
    node.replaceWith(...parts);
  }
}

// The cited part of a document with the text around it, what was quoted marked.
function around(whole, citation, passages) {
  const from = Math.max(0, citation.start - AROUND), to = Math.min(whole.length, citation.end + AROUND);
  const quoted = passages
    .flatMap((each) => each.quotations)
    .filter((each) => each.document === citation.document && each.start >= citation.start && each.end <= citation.end)
    .sort((one, other) => one.start - other.start);
  const parts = [from ? "… " : ""];
  let at = from;
  for (const { start, end } of quoted.length ? quoted : [citation]) {
    if (start < at) continue;
    parts.push(whole.slice(at, start), element("mark", {}, whole.slice(start, end)));
    at = end;
  }
  return [...parts, whole.slice(at, to), to < whole.length ? " …" : ""];
}

function passage(citation, name, passages, documents, back) {
  const shown = element("p", { dir: "auto" });
  const whole = documents[citation.document]?.text;
  if (whole === undefined) shown.append(citation.quote);
  else shown.append(...around(whole, citation, passages));
  const close = () => (root.remove(), back());
  const root = element("aside", { class: "passage", tabindex: "-1", "aria-label": `Passage ${name}` },
    element("div", { class: "bar" }, element("h3", { dir: "auto" }, name),
      element("button", { type: "button", class: "quiet icon", "aria-label": "Close the passage", onclick: close }, "✕")), shown);
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  return root;
}
