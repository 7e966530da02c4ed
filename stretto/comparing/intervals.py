"""Means and medians with intervals, by resampling questions (percentile bootstrap, 95%)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

RESAMPLES = 1_000
AT_ONCE = 1_000_000  # numbers that are drawn at once
SEED = 20231
FEWEST = 5
"""Questions below which there is no interval: resampling so few gives one that is too narrow."""


@dataclass(frozen=True)
class Interval:
    """A value, and where it lies in 95 of 100 resamplings of the questions.

    Attributes:
        value: over all questions.
        low: lower end; ``None`` below `FEWEST` questions.
        high: upper end; likewise.
        questions: how many there were.
    """

    value: float
    low: float | None
    high: float | None
    questions: int

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; those of all numbers where too few questions tell nothing."""
        return (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)

    def shown(self, form: str) -> str:
        """The value with its interval, written in this format."""
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def interval(values: Sequence[float], of: Literal["mean", "median"] = "mean") -> Interval | None:
    """The mean or median with its interval; ``None`` without values. The same values give the same interval."""
    if not values:
        return None
    import numpy as np  # noqa: PLC0415 - where it is first used

    given = np.asarray(values, dtype=np.float64)
    statistic = np.mean if of == "mean" else np.median
    if len(given) < FEWEST:
        return Interval(float(statistic(given)), None, None, len(given))
    draw = np.random.default_rng(SEED)
    rounds = max(1, min(RESAMPLES, AT_ONCE // len(given)))
    found: list[float] = []
    while len(found) < RESAMPLES:
        drawn = given[draw.integers(0, len(given), (rounds, len(given)))]
        found += statistic(drawn, axis=1).tolist()
    low, high = np.quantile(found, (0.025, 0.975))
    return Interval(float(statistic(given)), float(low), float(high), len(given))
