// What stands in a conversation without a question.

import { element, shape } from "./element.js";
import { examplesFor, isDemonstration } from "./examples.js";
import { sign } from "./signs.js";

const BARS = [[0, 62], [7, 84], [14, 70], [21, 96], [28, 58]]; // where each begins, and how long it is

const picture = () => shape("svg", { class: "voices", viewBox: "0 0 136 51", "aria-hidden": "true" },
  ...BARS.map(([x, width], row) => shape("rect", { class: "bar", x, y: row * 10.5, width, height: 6, rx: 3, opacity: 1 - row * 0.16 })));

// `ask` sends a question; `race` sends one and compares. `greets`: somebody said hello.
export function welcome(model, { ask, race, greets = false }) {
  const examples = examplesFor(model);
  const heading = greets ? "Hello. What would you like to know?" : "Answers that are written in several places at once";
  const what = isDemonstration(model)
    ? "This is the demonstration model. It knows 100 everyday topics and 200 short facts by heart, and answers other questions badly. Ask one of these, or something like them."
    : "A question with several points gets all of them at the same time, and the whole answer in a fraction of the time.";
  return element("div", { class: "welcome" }, picture(),
    element("h2", {}, heading),
    element("p", {}, what),
    element("div", { class: "examples" }, ...examples.map((question) => element("button", { type: "button", onclick: () => ask(question) }, question, sign("go")))),
    element("div", { class: "bar" },
      element("button", { type: "button", class: "difference", onclick: () => race(examples[0]) }, "See the difference"),
      element("span", { class: "dim" }, "both ways, one beside the other")));
}
