"""Means and medians with 95% confidence intervals, by resampling questions (percentile bootstrap)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

RESAMPLES = 1_000
AT_ONCE = 1_000_000  # numbers drawn at once
SEED = 20231
FEWEST = 5
"""The number of questions below which there is no interval: resampling so few makes it too narrow."""


@dataclass(frozen=True)
class Interval:
    """A value, and the interval that holds it in 95% of the resamplings of the questions.

    Attributes:
        value: the value over all questions.
        low: lower end; ``None`` below `FEWEST` questions.
        high: upper end; likewise.
        questions: number of questions.
    """

    value: float
    low: float | None
    high: float | None
    questions: int

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends; infinite if there are too few questions."""
        return (-math.inf if self.low is None else self.low), (math.inf if self.high is None else self.high)

    def shown(self, form: str) -> str:
        """Format the value with its interval; ``form`` is the format of each number."""
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def interval(values: Sequence[float], of: Literal["mean", "median"] = "mean") -> Interval | None:
    """Return the mean or median with its interval; ``None`` without values. Deterministic."""
    if not values:
        return None
    import numpy as np  # noqa: PLC0415 - imported on first use

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
