// Cards become the paragraphs of the answer, each from its own place.

import { voiceOf } from "./cards.js";

const LASTS_MS = 380;
const OWN_LETTERS = 24; // by which a paragraph is known as that of a part
const LETTERS = /[^\p{L}\p{N}]+/gu;

const letters = (text) => text.replace(LETTERS, "").toLowerCase();

// The block of the answer that holds each part, by the part's id. Both are in reading order.
export function paragraphsOf(body, parts) {
  const blocks = [...body.querySelectorAll(":scope > ol > li, :scope > ul > li, :scope > p, :scope > h3, :scope > h4, :scope > h5, :scope > .code, :scope > .table")];
  const texts = blocks.map((block) => letters(block.textContent));
  const found = new Map();
  let from = 0;
  parts.forEach((part, index) => {
    const own = letters(part.text).slice(0, OWN_LETTERS), title = letters(part.title ?? "");
    const at = texts.findIndex((text, place) => place >= from && ((own && text.includes(own)) || (title && text.startsWith(title))));
    if (at < 0) return;
    found.set(part.id, { block: blocks[at], voice: voiceOf(index) });
    from = at + 1;
  });
  return found;
}

// Number and title of a point stand where they stood in its card; the colon between title and text is heard, not seen.
export function asPoints(found) {
  for (const { block, voice } of found.values()) {
    if (block.tagName !== "LI" || block.parentElement.tagName !== "OL") continue;
    const list = block.parentElement;
    const title = block.matches(":has(> p:first-child)") ? block.firstElementChild.firstElementChild : block.firstElementChild;
    if (title?.tagName !== "STRONG" || title.previousSibling?.textContent.trim()) continue;
    const behind = title.nextSibling;
    const colon = behind?.nodeType === Node.TEXT_NODE && behind.data.match(/^\s*[:：]\s*/);
    if (colon) {
      const text = behind.splitText(colon[0].length);
      const heard = document.createElement("span");
      heard.className = "hidden";
      heard.textContent = colon[0];
      text.before(heard);
      behind.remove();
    }
    list.classList.add("points");
    block.dataset.number = String(list.start + [...list.children].indexOf(block));
    block.classList.add(`voice-${voice}`);
  }
}

// From where the cards stood to where the paragraphs stand.
export function settle(found, places) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [id, { block }] of found) {
    const card = places.get(id);
    if (!card?.width) continue;
    const own = block.getBoundingClientRect();
    const beyond = Math.max(0, own.width - card.width), below = Math.max(0, own.height - card.height);
    block.animate([
      { transform: `translate(${card.left - own.left}px, ${card.top - own.top}px)`, clipPath: `inset(0 ${beyond}px ${below}px -2.5rem)`, opacity: 0.5 },
      { transform: "none", clipPath: "inset(0 0 0 -2.5rem)", opacity: 1 },
    ], { duration: LASTS_MS, easing: "cubic-bezier(.2, .8, .2, 1)" });
  }
}
