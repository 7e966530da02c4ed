// Mathematics in a model's text: TeX becomes MathML, which browsers draw themselves. Temml is loaded with the first formula.

const LONGEST = 4_000; // characters of a formula; what is longer stays as it was written
const MOST_KEPT = 500; // formulas: a text is drawn anew many times while it grows
const INLINE = new RegExp(String.raw`^(?:\\\(([^]{1,${LONGEST}}?)\\\)|\$\$([^]{1,${LONGEST}}?)\$\$|\\\[([^]{1,${LONGEST}}?)\\\]|\$(?![\s$])((?:\\.|[^$\\\n]){1,400}?)(?<!\s)\$(?![\d$]))`);
const BLOCK = new RegExp(String.raw`^ {0,3}(?:\$\$([^]{1,${LONGEST}}?)\$\$|\\\[([^]{1,${LONGEST}}?)\\\]) *(?:\n+|$)`);
const kept = new Map();

let loading = null;

const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
const place = (tex, display) => `<span class="${display ? "math-display" : "math-inline"}">${escaped(tex)}</span>`;

export const extensions = [
  {
    name: "blockMath",
    level: "block",
    start: (source) => source.match(/^ {0,3}(?:\$\$|\\\[)/m)?.index,
    tokenizer(source) {
      const found = BLOCK.exec(source);
      return found ? { type: "blockMath", raw: found[0], tex: found[1] ?? found[2] } : undefined;
    },
    renderer: ({ tex }) => `<p>${place(tex, true)}</p>`,
  },
  {
    name: "inlineMath",
    level: "inline",
    start: (source) => source.match(/\$|\\[([]/)?.index,
    tokenizer(source) {
      const found = INLINE.exec(source);
      if (!found) return undefined;
      const [raw, round, dollars, square, dollar] = found;
      return { type: "inlineMath", raw, tex: round ?? dollars ?? square ?? dollar, display: (dollars ?? square) !== undefined };
    },
    renderer: ({ tex, display }) => place(tex, display),
  },
];

// Draw the formulas of a fragment; at once if the renderer is there, else when it is.
export function draw(fragment) {
  const places = [...fragment.querySelectorAll(".math-inline, .math-display")];
  if (!places.length) return;
  if (globalThis.temml) places.forEach(drawOne);
  else load().then(() => places.forEach(drawOne), () => {}); // without it, they stay as they were written
}

function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("vendor/temml.js", import.meta.url).href;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
  return loading;
}

function drawOne(place) {
  const tex = place.textContent, displayMode = place.className === "math-display";
  const key = `${displayMode} ${tex}`;
  if (!kept.has(key)) {
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(key, markup(tex, displayMode));
  }
  const found = kept.get(key);
  if (found) place.replaceChildren(found.cloneNode(true));
  if (displayMode) place.tabIndex = 0; // it may be wider than the page, and is scrolled by keys then
  if (displayMode) place.setAttribute("role", "group");
  if (displayMode) place.setAttribute("aria-label", "Formula");
}

// Formulas are the model's: what comes of them is sanitised like all else. Null where it is no formula.
function markup(tex, displayMode) {
  try {
    const html = globalThis.temml.renderToString(tex, { displayMode, throwOnError: true, trust: false, maxExpand: 500, annotate: false }).replace(/ style="[^"]*"/g, ""); // which the page's policy forbids
    return DOMPurify.sanitize(html, { USE_PROFILES: { mathMl: true }, FORBID_ATTR: ["style", "href", "id"], ALLOW_DATA_ATTR: false, RETURN_DOM_FRAGMENT: true });
  } catch {
    return null;
  }
}
