// What ran when, as a picture that grows: one row a branch, over the seconds since the question was sent.

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 980, NARROWEST = 240, FIGURES = 56, ROW = 20, TOP = 20;
const LETTER = 6.5; // about the width of one
const MOST_ROWS = 60;

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// rows: {name, needed, started, first, ended, failed} in seconds, null for what has not come yet. room: pixels.
export function timeline(rows, now, room) {
  const width = Math.min(WIDEST, Math.max(NARROWEST, room));
  const names = Math.min(220, width * 0.35);
  const shown = rows.slice(0, MOST_ROWS);
  const end = Math.max(now, ...rows.map((row) => row.ended ?? now), 0.001);
  const at = (seconds) => names + (Math.min(seconds, end) / end) * (width - names - FIGURES);
  const height = TOP + ROW * (shown.length + (rows.length > shown.length)) + 4;
  const svg = shape("svg", {
    class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `What ran when: ${rows.length} ${rows.length === 1 ? "branch" : "branches"} in ${end.toFixed(1)} seconds`,
  });
  for (const mark of marks(end, Math.max(2, Math.floor((width - names - FIGURES) / 80)))) {
    svg.append(shape("line", { class: "axis", x1: at(mark), x2: at(mark), y1: TOP - 4, y2: height }));
    svg.append(shape("text", { x: at(mark), y: 12 }, `${Number(mark.toFixed(3))} s`));
  }
  shown.forEach((row, index) => {
    const y = TOP + index * ROW;
    const letters = Math.floor(names / LETTER);
    const name = row.name.length > letters ? `${row.name.slice(0, letters - 1)}…` : row.name;
    svg.append(shape("text", { x: 0, y: y + 14 }, name));
    const ended = row.ended ?? now, started = row.started ?? ended, first = row.first ?? ended;
    const bar = (phase, since, until) => {
      if (until > since) svg.append(shape("rect", { class: phase, x: at(since), y: y + 4, height: 12, rx: 2, width: Math.max(1, at(until) - at(since)) }));
    };
    bar("waiting", row.needed, started);
    bar("silent", started, first);
    bar(row.failed ? "failed" : "writing", first, ended);
    if (row.failed) bar("failed", Math.max(row.needed, ended - end / 100), ended);
    svg.append(shape("text", { x: width, y: y + 14, "text-anchor": "end" }, `${(ended - row.needed).toFixed(2)} s`));
  });
  if (rows.length > shown.length) svg.append(shape("text", { x: 0, y: height - 10 }, `and ${rows.length - shown.length} more`));
  return svg;
}

function marks(end, most) {
  const power = 10 ** Math.floor(Math.log10(end / most));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => end / each <= most);
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, number) => number * step);
}
