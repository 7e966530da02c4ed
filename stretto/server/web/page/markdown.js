// Model text as HTML. It is not trusted: HTML, images and styles in it are not passed on, and what is left is sanitised.

import hljs from "./vendor/highlight.js";
import bash from "./vendor/languages/bash.js";
import go from "./vendor/languages/go.js";
import java from "./vendor/languages/java.js";
import javascript from "./vendor/languages/javascript.js";
import json from "./vendor/languages/json.js";
import python from "./vendor/languages/python.js";
import rust from "./vendor/languages/rust.js";
import xml from "./vendor/languages/xml.js";
import yaml from "./vendor/languages/yaml.js";
import { element } from "./element.js";
import { draw, extensions } from "./math.js";
import { Marked, Tokenizer } from "./vendor/marked.js";

const LONGEST_COLOURED = 20_000; // characters of a block of code
const LONGEST_LANGUAGE = 30; // characters
const DEEPEST = 20; // levels of lists and quotations: each level parses what is within it once more
const MOST_NESTED = 20_000; // looks for one within another: quotations that fall back level by level double them with each
const MOST_CELLS = 20_000; // of tables: a row may be one sign, and is filled to the width of its heading
const LONGEST_PARAGRAPH = 40_000; // characters: the time for links and strokes in one grows with its square
const MOST_SOUGHT = 3_000_000; // characters that are searched for the end of emphasis, of which many have none
const LANGUAGES = { bash, go, java, javascript, json, python, rust, xml, yaml };
for (const [name, grammar] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, grammar);

const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

let depth = 0;
let calls = 0, cells = 0, sought = 0; // of one text; calls are those within a list or quotation

class TooMuch extends RangeError {
  constructor(why) {
    super(why);
    this.why = why; // marked writes into the message
  }
}

// A list or quotation within too many others is text, as it was written.
function nested(kind) {
  return function (source) {
    if (depth >= DEEPEST) return undefined;
    if (depth && ++calls > MOST_NESTED) throw new TooMuch("lists and quotations within others");
    depth += 1;
    try {
      return Tokenizer.prototype[kind].call(this, source);
    } finally {
      depth -= 1;
    }
  };
}

// Counted before it is read: of each cell an object is made.
function table(source) {
  const found = this.rules.block.table.exec(source);
  if (found) cells += found[1].replace(/^\s*\||\|\s*$/g, "").split("|").length * (found[3] ?? "").split("\n").length;
  if (cells > MOST_CELLS) throw new TooMuch(`tables of more than ${MOST_CELLS.toLocaleString("en")} cells`);
  return Tokenizer.prototype.table.call(this, source);
}

function short(kind) {
  return function (source) {
    const found = Tokenizer.prototype[kind].call(this, source);
    if (found?.raw.length > LONGEST_PARAGRAPH) throw new TooMuch(`a paragraph of more than ${LONGEST_PARAGRAPH.toLocaleString("en")} characters`);
    return found;
  };
}

function emStrong(source, ...rest) {
  const found = Tokenizer.prototype.emStrong.call(this, source, ...rest);
  if (/^[*_]/.test(source)) sought += (found?.raw ?? source).length;
  if (sought > MOST_SOUGHT) throw new TooMuch("too many signs of emphasis");
  return found;
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions,
  tokenizer: { list: nested("list"), blockquote: nested("blockquote"), paragraph: short("paragraph"), text: short("text"), table, emStrong },
  renderer: {
    html: ({ text }) => escaped(text),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    image: ({ text, href }) => escaped(`${text} (${href})`),
    code({ text, lang }) {
      const language = (lang ?? "").trim().split(/\s/)[0];
      const known = language && hljs.getLanguage(language) && text.length <= LONGEST_COLOURED;
      return `<pre><code title="${escaped(language)}">${known ? hljs.highlight(text, { language }).value : escaped(text)}</code></pre>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "span",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ALLOWED_ATTR: ["href", "start", "class", "align", "title"],
  ADD_URI_SAFE_ATTR: ["start", "align"], // which hold no address
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

// Headings of an answer are below those of the page.
const HIGHEST = 3;
const LOWER = { H1: "h3", H2: "h4", H3: "h5", H4: "h6", H5: "h6", H6: "h6" };

const TURNING = /[\u202a-\u202e\u2066-\u2069]/g; // signs that turn the direction of the text after them
const FENCE = /^\s*(?:```|~~~)/gm;

// The text as a fragment. What cannot be rendered, as emphasis in thousands of emphases, stays as it was written,
// and why.
export function rendered(whole) {
  const text = whole.replace(TURNING, "");
  try {
    return fragmentOf(text);
  } catch (error) {
    const fragment = document.createDocumentFragment();
    const why = error instanceof TooMuch ? `it has ${error.why}` : "it cannot be drawn";
    const plain = document.createElement("p");
    plain.className = "plain";
    plain.dir = "auto";
    plain.textContent = text;
    fragment.append(plain, element("p", { class: "dim", dir: "auto" }, `Shown as it was written: ${why}.`));
    return fragment;
  }
}

// A heading as a text has it, for a place of its own: what a model wrote of it may hold marks.
export const headingOf = (title) => [...(rendered(`## ${title}`).firstElementChild?.childNodes ?? [])];

// A text that is being written: bold words that have begun on its last line are bold already.
export function soFar(text) {
  const from = text.lastIndexOf("\n") + 1;
  const line = text.slice(from).trimEnd(), words = line.replace(/`[^`]*`/g, "x");
  const isOpen = words.split("**").length % 2 === 0 && (text.match(FENCE) ?? []).length % 2 === 0;
  if (!isOpen) return text;
  const begun = text.slice(0, from) + line.replace(/\*+$/, "");
  if (words.endsWith("**")) return begun; // and no word of it is there yet
  return /\*\*\S[^*]*\*?$/.test(words) ? `${begun}**` : text;
}

function fragmentOf(text) {
  calls = cells = sought = 0;
  const fragment = DOMPurify.sanitize(marked.parse(text), ALLOWED);
  for (const each of fragment.querySelectorAll("[class]")) {
    const kept = [...each.classList].filter((name) => /^(?:hljs-|math-(?:inline|display)$)/.test(name));
    if (kept.length) each.className = kept.join(" ");
    else each.removeAttribute("class");
  }
  for (const heading of fragment.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const lower = document.createElement(LOWER[heading.tagName]);
    lower.append(...heading.childNodes);
    heading.replaceWith(lower);
  }
  const headings = [...fragment.querySelectorAll("h3,h4,h5,h6")], levelOf = (heading) => Number(heading.tagName[1]);
  const skipped = Math.min(...headings.map(levelOf)) - HIGHEST; // for those who hear the page, no level is
  if (skipped > 0) for (const heading of headings) heading.ariaLevel = String(levelOf(heading) - skipped);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scrolled = document.createElement("div");
    scrolled.className = "table";
    scrolled.tabIndex = 0;
    scrolled.setAttribute("role", "group");
    scrolled.setAttribute("aria-label", "Table");
    table.replaceWith(scrolled);
    scrolled.append(table);
  }
  for (const block of fragment.querySelectorAll("pre")) {
    block.tabIndex = 0;
    const framed = document.createElement("div"); // next to which the button stays while the code is scrolled
    framed.className = "code";
    framed.dir = "ltr";
    block.replaceWith(framed);
    framed.append(codeHead(block), block);
  }
  for (const block of fragment.children) block.dir ||= "auto"; // each runs as its own first letters do
  draw(fragment);
  return fragment;
}

// Above a block of code: its language, and what can be done with it.
function codeHead(block) {
  const code = block.querySelector("code");
  const language = code.title.slice(0, LONGEST_LANGUAGE) || "code";
  code.removeAttribute("title");
  const wrap = element("button", { type: "button", class: "wrap", "aria-pressed": "false", onclick: () => wrap.setAttribute("aria-pressed", String(block.classList.toggle("wrapped"))) }, "Wrap");
  return element("div", { class: "top" }, element("span", {}, language),
    element("span", {}, wrap, copyButton(() => code.textContent, "Copy code")));
}

// `how`: its class, and a sign before its word.
export function copyButton(text, label, { class: kind = "copy", sign = null } = {}) {
  const word = element("span", {}, "Copy");
  return element("button", { type: "button", class: kind, "aria-label": label, onclick: async () => {
    word.textContent = (await copied(text())) ? "Copied" : "Not copied";
    setTimeout(() => (word.textContent = "Copy"), 1500);
  } }, sign, word);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedAsSelection(text);
  }
}

// Where the page came over the network without encryption, or the clipboard is refused, browsers have the old way only.
function copiedAsSelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  area.setAttribute("aria-hidden", "true");
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
  return done;
}
