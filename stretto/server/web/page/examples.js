// Questions of the first screen. A model gets those that it answers well, and in points.

const POCKET = "local:pocket"; // the demonstration model
const OF_ANY = ["How do I look after a bicycle?", "What makes a city pleasant to live in?", "How should I prepare for a job interview?"];
const OF_MODELS = {
  [POCKET]: ["How do I look after a bicycle?", "How do I prepare for a job interview?", "What helps against a damp house?"],
};
const GREETING = /^(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|greetings|what can (?:you|i) (?:do|ask)(?: you)?)\P{L}*$/iu;

export const examplesFor = (model) => OF_MODELS[model] ?? OF_ANY;
export const isDemonstration = (model) => model === POCKET;
export const isGreeting = (question) => GREETING.test(question.trim());
