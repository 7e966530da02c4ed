// Parts become the paragraphs of the answer: they are in place already, and unfold.

import { element } from "../element.js";
import { headingOf } from "../markdown.js";
import { lane } from "./timeline.js";

const LASTS_MS = 420;
const OWN_LETTERS = 24; // by which a paragraph is known as that of a part
const LETTERS = /[^\p{L}\p{N}]+/gu;

const letters = (text) => text.replace(LETTERS, "").toLowerCase();

// The block of the answer that holds each part, by the part's id. Both are in reading order.
export function paragraphsOf(body, parts) {
  const blocks = [...body.querySelectorAll(":scope > ol > li, :scope > ul > li, :scope > p, :scope > h3, :scope > h4, :scope > h5, :scope > .code, :scope > .table")];
  const texts = blocks.map((block) => letters(block.textContent));
  const found = new Map();
  let from = 0;
  for (const part of parts) {
    const own = letters(part.text).slice(0, OWN_LETTERS), title = letters(part.title ?? "");
    const at = texts.findIndex((text, place) => place >= from && ((own && text.includes(own)) || (title && text.startsWith(title))));
    if (at < 0) continue;
    found.set(part.id, blocks[at]);
    from = at + 1;
  }
  return found;
}

// The heading of the answer above each part, by the part's id.
export function headingsOf(body, parts) {
  const headings = [...body.querySelectorAll(":scope > h4")];
  const found = new Map();
  let from = 0;
  for (const part of parts) {
    const title = headingOf(part.title).map((each) => each.textContent).join("");
    const at = headings.findIndex((heading, place) => place >= from && heading.textContent === title);
    if (at < 0) continue;
    found.set(part.id, headings[at]);
    from = at + 1;
  }
  return found;
}

// Parts stay where they were written: the items of a list, or each with what follows it. Returns what is there.
export function inColumns(found, parts) {
  const blocks = [...found.values()];
  if (blocks.length < 2) return found;
  if (blocks.every((block) => block.tagName === "LI")) {
    for (const list of new Set(blocks.map((block) => block.parentElement))) list.classList.add("columns");
    return found;
  }
  if (blocks.some((block) => block.tagName === "LI")) return found;
  const columns = element("div", { class: "columns" });
  blocks[0].before(columns);
  return new Map([...found].map(([id, block], at) => {
    const own = letters(parts.find((part) => part.id === id).text);
    const belongs = (next) => (at + 1 < blocks.length ? next !== blocks[at + 1] : own.includes(letters(next.textContent)));
    const part = element("div", { class: "part" });
    for (let next = block; next && (next === block || belongs(next));) {
      const after = next.nextElementSibling;
      part.append(next);
      next = after;
    }
    columns.append(part);
    return [id, part];
  }));
}

// Below each title or heading stays the bar that shows when its text was written.
export function keepBars(found, parts, now) {
  for (const part of parts) {
    const block = found.get(part.id);
    const title = block?.tagName === "H4" ? block : block?.querySelector(":scope > .title, :scope > p:first-child > .title");
    if (title && part.first != null) title.after(element("span", { class: "lane-of" }, lane(part, now, now)));
  }
}

// Lists whose every item begins with a title: number and title are above its text, as they do while it is written. The
// colon between them is for screen readers only.
export function asPoints(body) {
  for (const list of body.querySelectorAll(":scope > ol")) {
    const titles = [...list.children].map(titleOf);
    if (titles.includes(null)) continue;
    list.classList.add("points");
    titles.forEach((title, index) => {
      title.className = "title";
      title.closest("li").dataset.number = String(list.start + index);
      hideColon(title.nextSibling);
    });
  }
}

const COLON = /^\s*[:：]\s*/;

function titleOf(item) {
  const first = item.firstElementChild?.tagName === "P" ? item.firstElementChild.firstElementChild : item.firstElementChild;
  if (first?.tagName !== "STRONG" || first.previousSibling?.textContent.trim()) return null;
  const following = first.nextSibling;
  const ends = !following || following.nodeType !== Node.TEXT_NODE || !following.data.trim() || /[:：]\s*$/.test(first.textContent);
  return ends || COLON.test(following.data) ? first : null;
}

function hideColon(following) {
  const colon = following?.nodeType === Node.TEXT_NODE && following.data.match(COLON);
  if (!colon) return;
  following.splitText(colon[0].length);
  const hidden = document.createElement("span");
  hidden.className = "hidden";
  hidden.textContent = colon[0];
  following.replaceWith(hidden);
}

// From the place and height of each part to those of its paragraph.
export function settle(found, places) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [id, block] of found) {
    const part = places.get(id);
    if (!part?.width) continue;
    const own = block.getBoundingClientRect();
    const below = Math.max(0, own.height - part.height);
    block.animate([
      { transform: `translate(${part.left - own.left}px, ${part.top - own.top}px)`, clipPath: `inset(0 0 ${below}px)` },
      { transform: "none", clipPath: "inset(0)" },
    ], { duration: LASTS_MS, easing: "cubic-bezier(.3, .7, .2, 1)" });
  }
}
