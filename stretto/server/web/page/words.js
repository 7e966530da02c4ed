// What the page calls things. docs/design/README.md says which name of the interface belongs to each.

const WAYS = { auto: "Automatic", skeleton: "In parallel", items: "Item by item", fields: "Field by field", document: "Passage by passage", rewrite: "Piece by piece", direct: "One piece", consensus: "Several samples", collaborate: "Several models", cascade: "Small model first", forking: "Split by the model" };
const STATES = { waiting: "Next in line", silent: "Starting", writing: "Being written", finished: "Done", failed: "Failed", discarded: "Not needed any more" };
const KINDS = { outline: "Planning", plan: "Planning", terms: "Agreeing on terms", edits: "Finding what to change", fields: "First fields", closing: "Closing", edit: "Saying it once", direct: "The answer", aggregate: "Putting together", judgement: "Judging" };

export const rowOf = (branch) => branch.title || KINDS[branch.kind] || branch.kind || branch.id; // in a timeline
export const nameOf = (way) => WAYS[way] ?? way; // a strategy of somebody's own has its own name
export const stateOf = (state) => STATES[state];
export const endOf = (branch) => (branch.failed ? "failed" : branch.discarded ? "discarded" : "finished"); // its state then
export const asSentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);
export const counted = (number, noun) => `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;

// Seconds as a person says them: 0.64 s, 4.5 s, 12 s.
export const seconds = (value) => `${value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0)} s`;
export const times = (value) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));
