"""Recommendation of a decoding method from the measurements of `bench`, with the reason as a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from stretto.local_engine.measuring.bench import PLAIN, Report, Row

WORTH = 1.03  # a gain below this is noise, in time and in tokens per step
ONCE = 1.1  # factor by which a single repetition can be off, up or down
ADAPTIVE = "auto"
EVERY = "every kind"
AGAIN = "measure again, with more repetitions, on a quiet machine"


@dataclass(frozen=True, slots=True)
class Advice:
    """The method to use for prompts of one kind, and why."""

    kind: str
    method: str
    reason: str


def advice(report: Report) -> tuple[Advice, ...]:
    """Recommend a method for each kind of prompt and, last, one for all of them.

    The fastest median wins; ``auto`` if it is within 3 % of that or their repetitions overlap, because it keeps
    adapting to new text; no drafts if none gains 3 %. The reason says "too close to tell" if the clock can be off by
    more than the difference: repetitions overlap (a single one counts as 10 % off), or a method was faster without
    more tokens per step, which no draft can be. A method that changed an answer is not recommended, unless rounding
    can be the reason.
    """
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    usable = [row for row in report.rows if row.same or not report.exact]
    slack = ONCE if report.repeats == 1 else 1.0
    each = [_for_kind(kind, [row for row in usable if row.kind == kind], slack) for kind in kinds]
    return (*each, _for_all(kinds, usable, slack)) if len(kinds) > 1 else tuple(each)


def _for_kind(kind: str, rows: Sequence[Row], slack: float) -> Advice:
    timed = {row.method: row for row in rows if row.speed_up is not None}
    speeds = {name: row.speed_up or 0.0 for name, row in timed.items() if _could_be_faster(row)}
    if not speeds:
        return Advice(kind, PLAIN, "the model ended its answer at once, so there was nothing to measure.")
    lucky = {name: row.speed_up or 0.0 for name, row in timed.items() if name not in speeds}
    luckiest = max(lucky, key=lambda name: lucky[name], default=PLAIN)
    if lucky.get(luckiest, 0.0) >= max(WORTH, *speeds.values()):
        method = ADAPTIVE if ADAPTIVE in timed and (timed[ADAPTIVE].speed_up or 0.0) >= WORTH else PLAIN
        return Advice(
            kind,
            method,
            f"too close to tell: {luckiest} was {lucky[luckiest]:.2f} times as fast by the clock, with no more tokens "
            f"a step, so the clock is off by as much here; {AGAIN}.",
        )
    fastest = max(speeds, key=lambda name: speeds[name])
    method = _best(speeds)
    plain = timed[PLAIN]
    if method == PLAIN:
        gain = (
            f"the best, {fastest}, was {speeds[fastest]:.2f} times as fast" if fastest != PLAIN else "none was faster"
        )
        return Advice(kind, PLAIN, f"no draft gains {WORTH - 1:.0%} here: {gain}.")
    close = [name for name in speeds if name != fastest and _overlap(timed[name], timed[fastest], slack)]
    if ADAPTIVE in close and speeds[ADAPTIVE] >= WORTH:
        method = ADAPTIVE
    return Advice(kind, method, _reason(timed[method], plain, fastest, speeds, close))


def _reason(chosen: Row, plain: Row, fastest: str, speeds: dict[str, float], close: Sequence[str]) -> str:
    assert chosen.ms_per_token is not None  # noqa: S101 - it has a speed-up; for the type checker
    assert plain.ms_per_token is not None  # noqa: S101 - as above
    reason = (
        f"{chosen.ms_per_token.median:.2f} ms a token against {plain.ms_per_token.median:.2f} without drafts, "
        f"{speeds[chosen.method]:.2f} times as fast, with {chosen.tokens_per_step:.2f} tokens a step"
    )
    if chosen.method != fastest:
        reason += f"; {fastest} was {speeds[fastest] / speeds[chosen.method] - 1:.1%} faster, but does not adapt"
    if PLAIN in close:
        return f"too close to tell: {reason}; the repetitions of both overlap, so {AGAIN}."
    rivals = [name for name in (fastest, *close) if name != chosen.method]
    return f"{reason}; too close to tell from {', '.join(rivals)}." if close else f"{reason}."


def _for_all(kinds: Sequence[str], rows: Sequence[Row], slack: float) -> Advice:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.speed_up is not None:
            found.setdefault(row.method, []).append(row)
    most = max(map(len, found.values()), default=0)
    means = {method: _mean(row.speed_up or 1.0 for row in each) for method, each in found.items() if len(each) == most}
    if not means:
        return Advice(EVERY, PLAIN, "there was nothing to measure.")
    method = _best(means)
    if method == PLAIN:
        return Advice(EVERY, PLAIN, f"no draft gains {WORTH - 1:.0%} on average.")
    spreads = {name: _gains(found[name], found[PLAIN], slack) for name in means}
    fastest = max(means, key=lambda name: means[name])
    close = [name for name in means if name != fastest and spreads[name][1] >= spreads[fastest][0]]
    if ADAPTIVE in close and means[ADAPTIVE] >= WORTH:
        method = ADAPTIVE
    worst = min(row.speed_up or 1.0 for row in found[method])
    gain = (
        f"{means[method]:.2f} times as fast on average over {len(kinds)} kinds, {worst:.2f} times on the worst of them"
    )
    if PLAIN in close:
        return Advice(EVERY, method, f"too close to tell: {gain}; {AGAIN}.")
    rivals = [name for name in (fastest, *close) if name != method]
    return Advice(EVERY, method, f"{gain}; too close to tell from {', '.join(rivals)}." if close else f"{gain}.")


def _gains(rows: Sequence[Row], plain: Sequence[Row], slack: float) -> tuple[float, float]:
    """Return bounds of a method's average gain, from its slowest and its fastest repetitions."""
    base = {row.kind: row.ms_per_token.median for row in plain if row.ms_per_token}
    timed = [(base[row.kind], row.ms_per_token) for row in rows if row.ms_per_token]
    least = _mean(median / (spread.most * slack) for median, spread in timed)
    return least, _mean(median * slack / spread.least for median, spread in timed)


def _mean(factors: Iterable[float]) -> float:
    return exp(fmean(map(log, factors)))


def _overlap(one: Row, other: Row, slack: float) -> bool:
    """Return whether the repetitions of two methods overlap."""
    mine, its = one.ms_per_token, other.ms_per_token
    return mine is not None and its is not None and mine.least / slack <= its.most * slack


def _could_be_faster(row: Row) -> bool:
    return row.method == PLAIN or row.tokens_per_step >= WORTH


def _best(speeds: dict[str, float]) -> str:
    fastest = max(speeds, key=lambda name: speeds[name])
    if speeds[fastest] < WORTH:
        return PLAIN
    return ADAPTIVE if speeds[fastest] < WORTH * speeds.get(ADAPTIVE, 0.0) else fastest
