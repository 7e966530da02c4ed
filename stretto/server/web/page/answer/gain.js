// How much time writing in parallel saved: an estimate, from the times that this answer's own parts took.

const PARTS = new Set(["point", "item", "piece"]);
const WORTH_SAYING = 1.05; // times as fast
const HEADLINE = 1.3; // from here on it is what is said first

export const isPart = (branch) => PARTS.has(branch.kind);

// Seconds until a local model was loaded. The next answer does not wait for it, so it counts as no writing.
export function loadingOf(answer) {
  const first = answer.branches.find((branch) => branch.started != null);
  return first?.loaded != null ? Math.max(0, first.loaded - first.started) : 0;
}

// One piece would write the same parts one after another, behind the wait for its first text. Where the time of a local
// model's step is measured, its tokens at that pace count instead, if that is less: parts that run together slow each other.
export function gainOf(answer) {
  const parts = answer.branches.filter((branch) => isPart(branch) && branch.first != null && !branch.failed);
  if (parts.length < 2) return null;
  const loading = loadingOf(answer);
  const own = answer.seconds - loading;
  const first = Math.max(0, (answer.first ?? loading) - loading);
  const writing = parts.reduce((sum, branch) => sum + branch.ended - branch.first, 0);
  const { stepMs } = answer.route;
  const measured = stepMs == null ? Infinity : (stepMs / 1000) * parts.reduce((sum, branch) => sum + branch.tokens, 0);
  const onePiece = first + Math.min(writing, measured);
  const times = onePiece / own;
  if (!(times > WORTH_SAYING)) return null;
  const known = measured < writing
    ? "Estimated: the words of its parts, at the measured pace of this model when it writes alone. Compare measures it."
    : "Estimated: the times that its parts took to be written, added up. Parts that run together slow each other, so this may flatter. Compare measures it.";
  return { times, seconds: own, onePiece, known, first: times >= HEADLINE };
}
