// What an answer in parallel would have taken in one piece: an estimate, which promises no more than a comparison measures.

const PARTS = new Set(["section", "item", "piece", "field", "element"]);
const WORTH_SAYING = 1.05; // times as fast
const LONG_PLAN = 16; // tokens, from which a plan shows a pace

export const isPart = (branch) => PARTS.has(branch.kind);

// Seconds until a local model was loaded. The next answer does not wait for it, so it counts as no writing.
export function loadingOf(answer) {
  const first = answer.branches.find((branch) => branch.started != null);
  return first?.loaded != null ? Math.max(0, first.loaded - first.started) : 0;
}

function paceOfPlan({ branches }) {
  const plan = branches.find((branch) => (branch.kind === "outline" || branch.kind === "plan") && branch.first != null && branch.tokens >= LONG_PLAN);
  return plan ? (plan.ended - plan.first) / (plan.tokens - 1) : Infinity;
}

// One piece would write the same parts one after another, after the wait for its first text. Parts that run together slow
// each other, so the times that they took say too much. Where it is known how fast the model writes alone, by the measured
// time of its steps and the router's forecast from it, or of a server by the plan, which it wrote before most of the parts,
// their tokens at that pace count instead, if that is less.
export function gainOf(answer) {
  const parts = answer.branches.filter((branch) => isPart(branch) && branch.first != null && !branch.failed);
  if (parts.length < 2) return null;
  const loading = loadingOf(answer);
  const own = answer.seconds - loading;
  const first = Math.max(0, (answer.first ?? loading) - loading);
  const writing = parts.reduce((sum, branch) => sum + branch.ended - branch.first, 0);
  const { stepMs, tokenSeconds } = answer.route;
  const measured = Math.min(stepMs == null ? Infinity : stepMs / 1000, tokenSeconds ?? Infinity); // seconds a token
  const pace = measured < Infinity ? measured : paceOfPlan(answer);
  const shared = answer.branches.filter((branch) => branch.kind === "sections"); // calls that write several sections
  const alone = pace * [...parts, ...shared].reduce((sum, branch) => sum + branch.tokens, 0);
  const onePiece = first + Math.min(writing, alone);
  if (!(onePiece / own > WORTH_SAYING)) return null;
  const known = alone < writing
    ? "Estimated: the words of its parts, at the pace of this model when it writes alone. Compare measures it."
    : "Estimated: the times that its parts took to be written, added up. Parts that run together slow each other, so one piece may take less. Compare measures it.";
  return { seconds: own, onePiece, known };
}
