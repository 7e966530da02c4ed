"""Cost and quality of a cascade, measured on held-out questions.

The questions are split into five folds; the thresholds for each are learned from the other four. The curve shows
agreement with the large model by the share of questions that it gets, as in RouteLLM (Ong et al., 2406.18665), next to
random routing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stretto.calibrating.thresholds import Thresholds, Trial, learn, paid, stage
from stretto.comparing.bookkeeping import total
from stretto.comparing.intervals import Interval, interval

FOLDS = 5
POINTS = 20
_SEED = 20231


@dataclass(frozen=True)
class Point:
    """A cascade, or another way to choose between the models; all figures are means over questions, with intervals.

    Attributes:
        share: share of the questions that the large model answers.
        agreement: share of the answers that are as good as those of the large model.
        seconds: seconds per answer.
        tokens: tokens read and written per answer.
        usd: cost per answer; ``None`` if a price is unknown.
        right: share of correct answers; ``None`` if unknown for any question.
    """

    share: Interval
    agreement: Interval
    seconds: Interval
    tokens: Interval
    usd: Interval | None
    right: Interval | None


@dataclass(frozen=True)
class _Outcome:
    """The outcome of one question."""

    large: float
    good: float
    seconds: float
    tokens: float
    usd: float | None
    right: float | None


def held_out(trials: Sequence[Trial], learned: Callable[[Sequence[Trial]], Thresholds]) -> Point | None:
    """Measure thresholds on held-out questions; ``None`` below two questions."""
    found = [
        _outcome(trial, thresholds) for rest, part in _folds(trials) for thresholds in [learned(rest)] for trial in part
    ]
    return _point(found)


def curve(trials: Sequence[Trial]) -> tuple[Point, ...]:
    """Return the cascade from "no worse answer is accepted" to "every answer is accepted"."""

    def at(part: float) -> Point | None:
        return held_out(trials, lambda rest: learn(round(part * sum(not each.good[0] for each in rest)), rest))

    return tuple(found for number in range(POINTS + 1) if (found := at(number / POINTS)) is not None)


def random_routing(trials: Sequence[Trial], share: float) -> Point | None:
    """Return the expected result if a random share of the questions goes to the large model."""

    def mixed(small: float, large: float) -> float:
        return (1 - share) * small + share * large

    found = []
    for trial in trials:
        small, large, right = trial.costs[0], trial.costs[-1], trial.right
        usd = None if small.usd is None or large.usd is None else mixed(small.usd, large.usd)
        found.append(
            _Outcome(
                large=share,
                good=mixed(trial.good[0], 1.0),
                seconds=mixed(small.seconds, large.seconds),
                tokens=mixed(small.tokens, large.tokens),
                usd=usd,
                right=None if right is None else mixed(right[0], right[-1]),
            )
        )
    return _point(found)


def gap_recovered(points: Sequence[Point], alone: float) -> float | None:
    """Return the mean, over all shares, of the part of the gap between the models that the cascade recovers.

    Random routing recovers 0.5. ``alone``: agreement of the smallest model. RouteLLM calls this APGR. ``None`` without
    a gap.
    """
    if alone >= 1 or not points:
        return None
    best: dict[float, float] = {0.0: alone, 1.0: 1.0}
    for point in points:
        share = point.share.value
        best[share] = max(best.get(share, 0.0), point.agreement.value)
    shares = sorted(best)
    area = sum((after - before) * (best[before] + best[after]) / 2 for before, after in pairwise(shares))
    return (area - alone) / (1 - alone)


def _folds(trials: Sequence[Trial]) -> Iterator[tuple[list[Trial], list[Trial]]]:
    """Yield five folds, each with the rest of the questions; the same questions give the same folds."""
    order = list(range(len(trials)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 - not security-relevant
    count = min(FOLDS, len(trials))
    if count < 2:
        return
    for fold in range(count):
        part = set(order[fold::count])
        yield [trial for at, trial in enumerate(trials) if at not in part], [trials[at] for at in sorted(part)]


def _outcome(trial: Trial, thresholds: Thresholds) -> _Outcome:
    last, costs = stage(trial, thresholds), paid(trial, thresholds)
    large = last == len(thresholds)
    return _Outcome(
        large=float(large),
        good=1.0 if large else float(trial.good[last]),
        seconds=sum(each.seconds for each in costs),
        tokens=sum(each.tokens for each in costs),
        usd=total(each.usd for each in costs),
        right=None if trial.right is None else float(trial.right[last]),
    )


def _point(found: Sequence[_Outcome]) -> Point | None:
    def mean(values: Sequence[float | None]) -> Interval | None:
        known = [value for value in values if value is not None]
        return interval(known) if len(known) == len(values) else None

    share, agreement = mean([each.large for each in found]), mean([each.good for each in found])
    seconds, tokens = mean([each.seconds for each in found]), mean([each.tokens for each in found])
    if share is None or agreement is None or seconds is None or tokens is None:
        return None
    return Point(
        share, agreement, seconds, tokens, mean([each.usd for each in found]), mean([each.right for each in found])
    )
