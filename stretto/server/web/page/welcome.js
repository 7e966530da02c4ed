// What a conversation without a question shows.

import { element } from "./element.js";
import { examplesFor, isDemonstration } from "./examples.js";
import { sign } from "./signs.js";

// `ask` sends a question; `race` sends one and compares. `greets`: somebody said hello.
export function welcome(model, { ask, race, greets = false }) {
  const examples = examplesFor(model);
  const heading = greets ? "Hello. What would you like to know?" : "Answers that are written in several places at once";
  const what = isDemonstration(model)
    ? "This is the demonstration model. It knows 100 everyday topics and 200 short facts by heart, and answers other questions badly. Ask one of these, or something like them."
    : "A question with several points gets all of them at the same time, so the whole answer is there sooner.";
  return element("div", { class: "welcome" },
    element("h2", {}, heading),
    element("p", {}, what),
    element("div", { class: "examples" }, ...examples.map((question) => element("button", { type: "button", onclick: () => ask(question) }, question, sign("go")))),
    element("div", { class: "bar" },
      element("button", { type: "button", class: "difference", onclick: () => race(examples[0]) }, "See the difference"),
      element("span", { class: "dim" }, "one answer, written both ways and timed")));
}
