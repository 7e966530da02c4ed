// What was written when: one row a branch, over the seconds since the question was sent.

import { shape } from "../element.js";
import { seconds } from "../words.js";

const WIDEST = 980, NARROWEST = 240, FIGURES = 56, TOP = 22;
const NARROW = 560; // pixels, below which a name is above its bar
const LETTER = 7; // about the width of one
const MOST_ROWS = 60;
const LANE = { width: 240, height: 4 };
const OVERVIEW = { width: 240, height: 48, row: 8 };
const BOTH = { width: 288, height: 48, names: 96, figures: 44, row: 24 };

// The end of the axis: it stays for as long as what happens fits, so that bars grow and do not shrink.
export function axisEnd(now, before = 4) {
  let end = before;
  while (end < now) end *= 2;
  return end;
}

// rows: {name, needed, started, first, ended, failed} in seconds, null for what has not come yet. room: pixels.
// onePiece: seconds that the same text would have taken in one piece, if that is known.
export function timeline(rows, now, { axis, room, onePiece = null }) {
  const width = Math.min(WIDEST, Math.max(NARROWEST, room));
  const narrow = width < NARROW;
  const names = narrow ? 0 : Math.min(220, width * 0.35);
  const rowHeight = narrow ? 38 : 22;
  const shown = rows.slice(0, MOST_ROWS);
  const end = Math.max(axis, 0.001);
  const at = (time) => names + (Math.min(time, end) / end) * (width - names - FIGURES);
  const lines = shown.length + (rows.length > shown.length) + (onePiece != null);
  const height = TOP + rowHeight * lines + 4;
  const svg = shape("svg", {
    class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `What was written when: ${rows.length} ${rows.length === 1 ? "part" : "parts"} in ${now.toFixed(1)} seconds`,
  });
  for (const mark of marks(end, Math.max(2, Math.floor((width - names - FIGURES) / 80)))) {
    svg.append(shape("line", { class: "axis", x1: at(mark), x2: at(mark), y1: TOP - 6, y2: height }));
    svg.append(shape("text", { x: at(mark), y: 12, "text-anchor": mark && !narrow ? "middle" : "start" }, `${Number(mark.toFixed(3))} s`));
  }
  const label = (name, y) => {
    const letters = Math.floor((narrow ? width - FIGURES : names) / LETTER);
    svg.append(shape("text", { class: "name", x: 0, y: y + (narrow ? 13 : 15) }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name));
  };
  const figure = (time, y) => svg.append(shape("text", { x: width, y: y + rowHeight - 7, "text-anchor": "end" }, `${time.toFixed(2)} s`));
  shown.forEach((row, index) => {
    const y = TOP + index * rowHeight;
    label(row.name, y);
    svg.append(bars(row, now, at, { y: y + (narrow ? 19 : 5), height: 12 }));
    figure((row.ended ?? now) - row.needed, y);
  });
  let y = TOP + shown.length * rowHeight;
  if (rows.length > shown.length) {
    label(`and ${rows.length - shown.length} more`, y);
    y += rowHeight;
  }
  if (onePiece != null) {
    label("In one piece (estimated)", y);
    svg.append(shape("rect", { class: "estimated", x: at(0) + 0.5, y: y + (narrow ? 19.5 : 5.5), height: 11, rx: 2, width: Math.max(1, at(onePiece) - at(0) - 1) }));
    figure(onePiece, y);
  }
  return svg;
}

// A part of an answer: a thin bar, on the same axis as those of the others.
export function lane(row, now, axis = axisEnd(now)) {
  const { width, height } = LANE;
  const at = (time) => (Math.min(time, axis) / axis) * width;
  return shape("svg", { class: "lane-bar", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    shape("rect", { class: "ground", x: 0, width, y: 0, height }), bars(row, now, at, { y: 0, height }));
}

// The bars of all parts under each other, for a page that is too small to show all parts.
export function overview(rows, now, axis = axisEnd(now)) {
  const { width, height } = OVERVIEW;
  const each = Math.min(OVERVIEW.row, height / rows.length);
  const at = (time) => (Math.min(time, axis) / axis) * width;
  return shape("svg", { class: "overview lane-bar", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...rows.flatMap((row, index) => [
      shape("rect", { class: "ground", x: 0, width, y: index * each, height: each * 0.6 }),
      shape("g", { class: row.ended == null ? "" : "finished" }, bars(row, now, at, { y: index * each, height: each * 0.6 })),
    ]));
}

// The time of an answer above the one that is estimated for one piece. The words next to it say the same.
export function both(own, onePiece) {
  const { width, height, names, figures, row } = BOTH;
  const longest = width - names - figures - 1;
  const most = Math.max(own, onePiece, 0.001);
  const svg = shape("svg", { class: "both", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMinYMid", "aria-hidden": "true" });
  [["In parallel", "parallel", own], ["In one piece", "estimated", onePiece]].forEach(([name, kind, time], at) => {
    svg.append(shape("text", { x: 0, y: at * row + 16 }, name));
    svg.append(shape("rect", { class: kind, x: names + 0.5, y: at * row + 8, width: Math.max(3, (time / most) * longest), height: 8, rx: 3 }));
    svg.append(shape("text", { class: "figure", x: width, y: at * row + 16, "text-anchor": "end" }, seconds(time)));
  });
  return svg;
}

function bars(row, now, at, { y, height }) {
  const group = shape("g", {});
  const ended = row.ended ?? now, started = row.started ?? ended, first = row.first ?? ended;
  const bar = (phase, since, until) => {
    if (until > since) group.append(shape("rect", { class: phase, x: at(since), y, height, rx: Math.min(2, height / 2), width: Math.max(1, at(until) - at(since)) }));
  };
  if (started > row.needed) {
    group.append(shape("line", { class: "waiting", x1: at(row.needed), x2: at(started), y1: y + height / 2, y2: y + height / 2 }));
  }
  bar("silent", started, first);
  bar(row.failed ? "failed" : "writing", first, ended);
  if (row.failed) bar("failed", Math.max(row.needed, ended - ended / 100), ended);
  return group;
}

function marks(end, most) {
  const power = 10 ** Math.floor(Math.log10(end / most));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => end / each <= most);
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, number) => number * step);
}
