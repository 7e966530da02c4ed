// The fields of the server's events and answers: they are read here, and nowhere else in the page.

export const eventOf = (event) => ({
  type: event.type,
  id: event.branch_id,
  kind: event.kind,
  title: event.heading || event.title,
  text: event.text,
  total: event.total,
  vote: event.vote,
  edit: event.type === "text_edited" ? { old: event.old, new: event.new } : undefined,
  record: event.record && passageOf(event.record),
  route: event.route && routeOf(event.route),
  branch: event.branch && branchOf(event.branch),
  answer: event.answer,
});

export const routeOf = (route) => ({
  way: route.strategy,
  model: route.backend,
  reason: route.reason ?? "",
  onePiece: route.forecast?.direct?.seconds ?? null, // seconds, as forecast
  tokenSeconds: route.decoding_forecast?.ms_per_token != null ? secondsPerToken(route.forecast?.direct) : null, // of one piece, as forecast from what was measured
  stepMs: route.decoding_forecast?.step_ms ?? null,
});

const secondsPerToken = (forecast) => (forecast?.written ? forecast.seconds / forecast.written : null);

export const branchOf = (branch) => ({
  id: branch.id,
  kind: branch.kind,
  title: branch.heading || branch.title,
  model: branch.model ?? "",
  text: branch.text,
  failed: branch.status === "failed" && !branch.discarded,
  discarded: branch.discarded ?? false, // it was cancelled: the answer did not need it
  error: branch.error,
  tokens: branch.usage?.completion_tokens ?? 0,
  needed: branch.span.needed_s,
  started: branch.span.started_s,
  loaded: branch.span.loaded_s ?? null,
  first: branch.span.first_s,
  ended: branch.span.ended_s,
});

export const passageOf = (record) => ({
  document: record.document,
  start: record.start,
  end: record.end,
  wasRead: record.status === "read",
  isUseful: record.informative,
  quotations: record.evidence ?? [], // {start, end} in the document
});

export const citationOf = (citation) => ({
  number: citation.number,
  label: citation.label,
  title: citation.title,
  document: citation.document,
  start: citation.start,
  end: citation.end,
  quote: citation.quote,
});

export const answerOf = (answer) => ({
  text: answer.text,
  way: answer.strategy || answer.route?.strategy,
  route: routeOf(answer.route),
  branches: answer.branches.map(branchOf),
  seconds: answer.timeline.total_s,
  first: answer.timeline.first_text_s,
  tokensRead: answer.usage.prompt_tokens,
  tokensWritten: answer.usage.completion_tokens,
  calls: answer.usage.calls,
  dollars: answer.cost ? answer.cost.usd : null,
  warnings: (answer.warnings ?? []).map((warning) => warning.message),
  citations: (answer.citations ?? []).map(citationOf),
  changes: answer.changes ?? [], // of the page's own: from its events
  passages: (answer.passages ?? []).map(passageOf),
  agreement: answer.agreement ? { by: answer.agreement.decided_by, most: Math.max(0, ...Object.values(answer.agreement.votes)) } : null,
});
