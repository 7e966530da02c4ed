// The same question answered twice: a bar for each way from the start, and the verdict above them.

import { element, shape } from "../element.js";
import { answerOf } from "../fields.js";
import { nameOf, seconds, times } from "../words.js";
import { loadingOf } from "./gain.js";
import { axisEnd } from "./timeline.js";

const WIDTH = 600, HEIGHT = 16; // units of the drawing of a bar
const FRAME_MS = 100;

export const secondsOf = (answer) => answerOf(answer).seconds - loadingOf(answerOf(answer));

export class Race {
  constructor(way) {
    this.axis = axisEnd(0);
    this.verdict = element("p", { class: "verdict" }, "Which is faster?");
    this.tracks = [track(nameOf(way), "parallel"), track(nameOf("direct"), "one")];
    this.known = element("p", { class: "known" }, "One after the other, so that neither slows the other.");
    this.root = element("div", { class: "race", role: "group", "aria-label": "Both ways compared" }, this.verdict, ...this.tracks.map((each) => each.root), this.known);
    this.times = [null, null];
    this.timer = null;
  }

  // A way begins to be written; its bar grows until it `ended`.
  begin(lane) {
    const began = performance.now();
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      this.times[lane] = (performance.now() - began) / 1000;
      const [first] = this.times;
      if (lane && this.times[1] > first) this.verdict.textContent = `${times(this.times[1] / first)} times as fast, and more`;
      this.draw();
    }, FRAME_MS);
  }

  ended(lane, answer) {
    clearInterval(this.timer);
    this.times[lane] = secondsOf(answer);
    this.draw(lane);
  }

  stop() {
    clearInterval(this.timer);
    this.verdict.textContent = "Not decided: one of the two is not complete.";
  }

  draw() {
    this.axis = axisEnd(Math.max(...this.times.map((each) => each ?? 0)), this.axis);
    this.tracks.forEach((each, lane) => {
      const time = this.times[lane];
      each.bar.setAttribute("width", time == null ? 0 : Math.max(2, (time / this.axis) * WIDTH));
      each.time.textContent = time == null ? "waits" : seconds(time);
    });
  }

  decide(answer, direct) {
    clearInterval(this.timer);
    this.times = [secondsOf(answer), secondsOf(direct)];
    this.axis = Math.max(...this.times) * 1.02;
    this.draw();
    const [own, other] = this.times;
    const [one, two] = [answerOf(answer), answerOf(direct)];
    const faster = other >= own;
    this.verdict.textContent = faster ? `${times(other / own)} times as fast as in one piece` : `${times(own / other)} times as slow as in one piece`;
    this.root.classList.toggle("decided", faster);
    this.known.textContent = `Measured: ${own.toFixed(2)} s and ${other.toFixed(2)} s, ${one.tokensWritten.toLocaleString()} and ${two.tokensWritten.toLocaleString()} tokens, one after the other.`;
  }
}

function track(name, kind) {
  const bar = shape("rect", { class: "run", x: 0, y: 0, width: 0, height: HEIGHT, rx: 3 });
  const time = element("output", {}, "");
  const root = element("div", { class: `track ${kind}` }, element("span", {}, name),
    shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, shape("rect", { class: "ground", x: 0, y: 0, width: WIDTH, height: HEIGHT, rx: 3 }), bar), time);
  return { root, bar, time };
}
