// What stands in a conversation without a question.

import { element } from "./view.js";

const EXAMPLES = ["How do I look after a bicycle?", "Why is the sky blue?", "What should I pack for a week by the sea?"];

export const welcome = (ask) => element("div", { class: "welcome" },
  element("p", {}, "Answers are written in several places at once, where that does them good."),
  ...EXAMPLES.map((question) => element("button", { type: "button", onclick: () => ask(question) }, question)));
