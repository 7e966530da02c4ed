"""Learns from where on the answers of a ladder's smaller models stand.

The number of worse answers that may stand is chosen by conformal risk control (Angelopoulos et al., 2208.02814): where
at most ``b`` of ``n`` standing answers were worse, a further question gets a worse answer with a probability of at most
``(b + 1) / (n + 1)``. That holds for one smaller model and questions of the same kind. For several models the allowance
is divided among them in the cheapest way, so the bound holds only nearly; figures on held-out questions tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

Thresholds = tuple[float | None, ...]
"""The least score at which an answer stands, by model; ``None``: the model is not asked."""

_DIVISIONS = {2: 20, 3: 6}  # of the allowance, by the number of models that it is divided among
_DIGITS = 3  # of a threshold, significant ones


@dataclass(frozen=True)
class Spent:
    """What an answer took; ``usd`` is ``None`` where a price is unknown."""

    seconds: float
    tokens: int
    usd: float | None


@dataclass(frozen=True)
class Trial:
    """What is known of one question.

    Attributes:
        scores: how sure each smaller model was; ``None``: its answer cannot stand.
        good: whether the answer of each was as good as that of the large model.
        spent: by each smaller model, and by the large one.
        right: whether the answer of each, and that of the large model, is right, where that is known.
    """

    scores: tuple[float | None, ...]
    good: tuple[bool, ...]
    spent: tuple[Spent, ...]
    right: tuple[bool, ...] | None = None


def allowance(goal: float, questions: int) -> int:
    """How many worse answers may stand among so many questions; below 0 where the questions are too few."""
    return math.floor((1 - goal) * (questions + 1) - 1 + 1e-9)


def fewest(goal: float) -> int:
    """How many questions it takes before any answer may stand."""
    return math.ceil(1 / (1 - goal) - 1 - 1e-9)


def stage(trial: Trial, thresholds: Thresholds) -> int:
    """Whose answer is shown: the place of a smaller model, or behind them that of the large one."""
    for place, (score, threshold) in enumerate(zip(trial.scores, thresholds, strict=True)):
        if threshold is not None and score is not None and score >= threshold:
            return place
    return len(thresholds)


def learn_for(goal: float, trials: Sequence[Trial]) -> Thresholds:
    """The thresholds that cost least among those that keep to the goal.

    A model that costs more than it saves is left out, so that no ladder is dearer than the large model alone.
    """
    return _cheapest(trials, allowance(goal, len(trials)), may_skip=True)


def learn(allowed: int, trials: Sequence[Trial]) -> Thresholds:
    """The thresholds that cost least where so many worse answers may stand; every model is asked that can help."""
    return _cheapest(trials, allowed, may_skip=False)


def _cheapest(trials: Sequence[Trial], allowed: int, *, may_skip: bool) -> Thresholds:
    count = len(trials[0].scores)
    best: Thresholds = (None,) * count
    least = _price(trials, best) if may_skip else math.inf
    if allowed < 0:
        return best
    for shares in _divided(allowed, count):
        for asked in product((True, False), repeat=count) if may_skip else [(True,) * count]:
            found = _thresholds(trials, shares, asked)
            if (price := _price(trials, found)) < least:
                best, least = found, price
    return best


def _divided(allowed: int, count: int) -> Iterator[tuple[int, ...]]:
    """Ways to divide the allowance among so many models."""
    if count == 1:
        yield (allowed,)
        return
    step = max(1, -(-allowed // _DIVISIONS.get(count, 3)))
    for first in {*range(0, allowed + 1, step), allowed}:
        for rest in _divided(allowed - first, count - 1):
            yield (first, *rest)


def _thresholds(trials: Sequence[Trial], shares: Sequence[int], asked: Sequence[bool]) -> Thresholds:
    found: list[float | None] = []
    left = list(trials)
    for place, (share, is_asked) in enumerate(zip(shares, asked, strict=True)):
        threshold = _threshold(left, place, share) if is_asked else None
        found.append(threshold)
        if threshold is not None:
            left = [trial for trial in left if (score := trial.scores[place]) is None or score < threshold]
    return tuple(found)


def _threshold(trials: Sequence[Trial], place: int, allowed: int) -> float | None:
    """The lowest threshold at which at most so many worse answers stand."""
    scored = sorted(
        ((score, trial.good[place]) for trial in trials if (score := trial.scores[place]) is not None), reverse=True
    )
    worse, least = 0, None
    for at, (score, good) in enumerate(scored):
        worse += not good
        if worse > allowed:
            break
        if at + 1 == len(scored) or scored[at + 1][0] < score:  # equal scores stand or fall together
            least = at
    if least is None:
        return None
    below = scored[least + 1][0] if least + 1 < len(scored) else None
    return _between(scored[least][0], below)


def _between(score: float, below: float | None) -> float:
    """A short number at which this score stands and the next one does not."""
    middle = score if below is None else (score + below) / 2
    rounded = float(f"{middle:.{_DIGITS}g}")
    return rounded if rounded <= score and (below is None or rounded > below) else score


def _price(trials: Sequence[Trial], thresholds: Thresholds) -> float:
    """What the questions would have cost: US dollars where all prices are known and some are not 0, else seconds."""
    prices = [each.usd for trial in trials for each in trial.spent]
    known = None not in prices and any(prices)
    return sum((each.usd or 0.0) if known else each.seconds for trial in trials for each in paid(trial, thresholds))


def paid(trial: Trial, thresholds: Thresholds) -> list[Spent]:
    """What one question costs: all models that were asked."""
    last = stage(trial, thresholds)
    return [
        trial.spent[place] for place in range(last + 1) if place == len(thresholds) or thresholds[place] is not None
    ]
