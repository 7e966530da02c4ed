"""Learning the thresholds at which answers of a ladder's smaller models are accepted.

The number of worse answers that may be accepted follows conformal risk control (Angelopoulos et al., 2208.02814): if at
most ``b`` of ``n`` accepted answers were worse, a further question gets a worse answer with a probability of at most
``(b + 1) / (n + 1)``. That applies to one smaller model and questions of the same kind. For more models, the allowance
is divided among them in the cheapest way, so the bound is only approximate; figures on held-out questions show the
actual rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

Thresholds = tuple[float | None, ...]
"""The lowest score at which an answer is accepted, by model; ``None``: the model is not asked."""

_DIVISIONS = {2: 20, 3: 6}  # steps of the allowance, by the number of models that share it
_DIGITS = 3  # significant digits of a threshold


@dataclass(frozen=True)
class Spent:
    """The cost of an answer; ``usd`` is ``None`` if a price is unknown."""

    seconds: float
    tokens: int
    usd: float | None


@dataclass(frozen=True)
class Trial:
    """The data of one question.

    Attributes:
        scores: the confidence of each smaller model; ``None``: its answer cannot be accepted.
        good: whether the answer of each was as good as that of the large model.
        costs: the cost of each smaller model and of the large one.
        right: whether the answer of each, and that of the large model, is correct, if known.
    """

    scores: tuple[float | None, ...]
    good: tuple[bool, ...]
    costs: tuple[Spent, ...]
    right: tuple[bool, ...] | None = None


def allowance(goal: float, questions: int) -> int:
    """Return how many worse answers may be accepted among these questions; negative if there are too few."""
    return math.floor((1 - goal) * (questions + 1) - 1 + 1e-9)


def fewest(goal: float) -> int:
    """Return the minimum number of questions for accepting any answer."""
    return math.ceil(1 / (1 - goal) - 1 - 1e-9)


def stage(trial: Trial, thresholds: Thresholds) -> int:
    """Return whose answer is shown: the index of a smaller model, or the next index for the large one."""
    for place, (score, threshold) in enumerate(zip(trial.scores, thresholds, strict=True)):
        if threshold is not None and score is not None and score >= threshold:
            return place
    return len(thresholds)


def learn_for(goal: float, trials: Sequence[Trial]) -> Thresholds:
    """Return the cheapest thresholds that meet the goal.

    Models that cost more than they save are left out, so no ladder costs more than the large model alone.
    """
    return _cheapest(trials, allowance(goal, len(trials)), may_skip=True)


def learn(allowed: int, trials: Sequence[Trial]) -> Thresholds:
    """Return the cheapest thresholds that accept this many worse answers, with every model that can help."""
    return _cheapest(trials, allowed, may_skip=False)


def _cheapest(trials: Sequence[Trial], allowed: int, *, may_skip: bool) -> Thresholds:
    count = len(trials[0].scores)
    best: Thresholds = (None,) * count
    least = _price(trials, best) if may_skip else math.inf
    if allowed < 0:
        return best
    for shares in _divided(allowed, count):
        for used in product((True, False), repeat=count) if may_skip else [(True,) * count]:
            found = _thresholds(trials, shares, used)
            if (price := _price(trials, found)) < least:
                best, least = found, price
    return best


def _divided(allowed: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to divide the allowance among ``count`` models."""
    if count == 1:
        yield (allowed,)
        return
    step = max(1, -(-allowed // _DIVISIONS.get(count, 3)))
    for first in {*range(0, allowed + 1, step), allowed}:
        for rest in _divided(allowed - first, count - 1):
            yield (first, *rest)


def _thresholds(trials: Sequence[Trial], shares: Sequence[int], used: Sequence[bool]) -> Thresholds:
    found: list[float | None] = []
    left = list(trials)
    for place, (share, is_used) in enumerate(zip(shares, used, strict=True)):
        threshold = _threshold(left, place, share) if is_used else None
        found.append(threshold)
        if threshold is not None:
            left = [trial for trial in left if (score := trial.scores[place]) is None or score < threshold]
    return tuple(found)


def _threshold(trials: Sequence[Trial], place: int, allowed: int) -> float | None:
    """Return the lowest threshold at which at most ``allowed`` worse answers are accepted."""
    scored = sorted(
        ((score, trial.good[place]) for trial in trials if (score := trial.scores[place]) is not None), reverse=True
    )
    worse, least = 0, None
    for at, (score, good) in enumerate(scored):
        worse += not good
        if worse > allowed:
            break
        if at + 1 == len(scored) or scored[at + 1][0] < score:  # equal scores are accepted or rejected together
            least = at
    if least is None:
        return None
    below = scored[least + 1][0] if least + 1 < len(scored) else None
    return _between(scored[least][0], below)


def _between(score: float, below: float | None) -> float:
    """Return a short number that accepts this score and rejects the next one."""
    middle = score if below is None else (score + below) / 2
    rounded = float(f"{middle:.{_DIGITS}g}")
    return rounded if rounded <= score and (below is None or rounded > below) else score


def _price(trials: Sequence[Trial], thresholds: Thresholds) -> float:
    """Return the cost of the questions: US dollars if all prices are known and some are not 0, else seconds."""
    prices = [each.usd for trial in trials for each in trial.costs]
    known = None not in prices and any(prices)
    return sum((each.usd or 0.0) if known else each.seconds for trial in trials for each in paid(trial, thresholds))


def paid(trial: Trial, thresholds: Thresholds) -> list[Spent]:
    """Return the cost of one question: that of each model asked."""
    last = stage(trial, thresholds)
    return [
        trial.costs[place] for place in range(last + 1) if place == len(thresholds) or thresholds[place] is not None
    ]
