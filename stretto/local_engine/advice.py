"""From what `bench` measured to the decoding method to use, with the reason as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from stretto.local_engine.bench import PLAIN, Report, Row

__all__ = ["Advice", "advice"]

WORTH = 1.03  # a gain below this is noise, in time and in tokens a step
ADAPTIVE = "auto"
EVERY = "every kind"


@dataclass(frozen=True, slots=True)
class Advice:
    """The method to use for prompts of one kind, and why."""

    kind: str
    method: str
    reason: str


def advice(report: Report) -> tuple[Advice, ...]:
    """Advise for each kind of prompt and, last, for all of them with one method.

    The fastest median wins; ``auto`` where it is within 3 % of it, because it goes on adapting to what comes; no drafts
    where none gains 3 %. A method that got no more tokens out of a step than without drafts was not faster, whatever
    the clock said, and one that changed an answer where rounding cannot be why is not to be used: neither is advised.
    """
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    usable = [row for row in report.rows if row.same or not report.exact]
    each = [_for_kind(kind, [row for row in usable if row.kind == kind]) for kind in kinds]
    return (*each, _for_all(kinds, usable)) if len(kinds) > 1 else tuple(each)


def _for_kind(kind: str, rows: Sequence[Row]) -> Advice:
    speeds = {row.method: row.speed_up for row in rows if row.speed_up is not None and _could_be_faster(row)}
    if not speeds:
        return Advice(kind, PLAIN, "the model ended its answer at once, so there was nothing to measure.")
    method = _best(speeds)
    fastest = max(speeds, key=lambda name: speeds[name])
    by_method = {row.method: row for row in rows}
    plain = by_method[PLAIN].ms_per_token
    if method == PLAIN or plain is None:
        gain = (
            f"the best, {fastest}, was {speeds[fastest]:.2f} times as fast" if fastest != PLAIN else "none was faster"
        )
        return Advice(kind, PLAIN, f"no draft gains {WORTH - 1:.0%} here: {gain}.")
    chosen = by_method[method]
    assert chosen.ms_per_token is not None  # noqa: S101 - it has a speed-up, told to the type checker
    reason = (
        f"{chosen.ms_per_token.median:.2f} ms a token against {plain.median:.2f} without drafts, "
        f"{speeds[method]:.2f} times as fast, with {chosen.tokens_per_step:.2f} tokens a step"
    )
    if method != fastest:
        reason += f"; {fastest} was {speeds[fastest] / speeds[method] - 1:.1%} faster, but does not adapt"
    if chosen.ms_per_token.most >= plain.least:
        reason += "; the repetitions of both overlap, so measure again on a quiet machine"
    return Advice(kind, method, f"{reason}.")


def _for_all(kinds: Sequence[str], rows: Sequence[Row]) -> Advice:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.speed_up is not None:
            found.setdefault(row.method, []).append(row.speed_up)
    most = max(map(len, found.values()), default=0)
    means = {method: exp(fmean(map(log, speeds))) for method, speeds in found.items() if len(speeds) == most}
    if not means:
        return Advice(EVERY, PLAIN, "there was nothing to measure.")
    method = _best(means)
    if method == PLAIN:
        return Advice(EVERY, PLAIN, f"no draft gains {WORTH - 1:.0%} on average.")
    gain = f"{means[method]:.2f} times as fast on average over {len(kinds)} kinds"
    return Advice(EVERY, method, f"{gain}, {min(found[method]):.2f} times on the worst of them.")


def _could_be_faster(row: Row) -> bool:
    return row.method == PLAIN or row.tokens_per_step >= WORTH


def _best(speeds: dict[str, float]) -> str:
    fastest = max(speeds, key=lambda name: speeds[name])
    if speeds[fastest] < WORTH:
        return PLAIN
    return ADAPTIVE if speeds[fastest] < WORTH * speeds.get(ADAPTIVE, 0.0) else fastest
