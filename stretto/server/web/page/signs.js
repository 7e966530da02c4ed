// The small signs on buttons; each is next to a word.

import { shape } from "./element.js";

const PATHS = {
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  edit: "M3 13l.6-2.6 7-7 2 2-7 7zM9.3 4.7l2 2",
  retry: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  save: "M8 2.5v7.5M5 7.2l3 3 3-3M2.5 13.5h11",
  go: "M3 8h10M9 4l4 4-4 4",
};

export const sign = (name) => shape("svg", { class: "sign", viewBox: "0 0 16 16", "aria-hidden": "true" }, shape("path", { d: PATHS[name] }));
