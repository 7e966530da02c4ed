"""What a step costs by its number of rows, and how many rows are worth that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

__all__ = ["StepCost"]


class StepCost:
    """Milliseconds of a step by the rows in it, from a table measured on this machine.

    Between measured numbers of rows the cost is a straight line, beyond the last one it goes on as steeply, and it
    never falls: where more rows were measured to be cheaper, fewer cost the same.

    Args:
        measured: milliseconds by number of rows; one row is among them.

    Attributes:
        sequences: that share a step now; each has a row of its own in any case.
    """

    sequences = 1

    def __init__(self, measured: Mapping[int, float]) -> None:
        if min(measured, default=0) != 1 or min(measured.values()) <= 0:
            raise ValueError(f"{dict(measured)} is no table of step costs: it needs times above 0, that of 1 row too.")
        rows = sorted(measured)
        times = [min(measured[more] for more in rows if more >= own) for own in rows]
        self._steepness = (times[-1] - times[-2]) / (rows[-1] - rows[-2]) if len(rows) > 1 else 0.0
        self._times = [times[0]]  # by rows, from 1 on
        for low, high, early, late in zip(rows, rows[1:], times, times[1:], strict=False):
            self._times += [early + (late - early) * (own - low) / (high - low) for own in range(low + 1, high + 1)]

    def __call__(self, rows: int) -> float:
        """Milliseconds of a step with this many rows, 1 or more."""
        beyond = rows - len(self._times)
        return self._times[rows - 1] if beyond <= 0 else self._times[-1] + self._steepness * beyond

    def best(self, survival: Iterable[float], limit: int, fixed: int = 0, sure: float = 1.0) -> tuple[int, float]:
        """Choose how many drafted rows to evaluate: the number with the most expected tokens per millisecond.

        Drafting n rows gives the model's own token and those that survive: 1 + s[1] + ... + s[n] tokens.

        Args:
            survival: of the drafted rows, the largest first.
            limit: of the number chosen.
            fixed: further rows that are evaluated in any case, the last committed token not counted.
            sure: tokens committed in any case.

        Returns:
            that number, 0 included, and the tokens per millisecond.
        """
        tokens, best, chosen = sure, sure / self(1 + fixed), 0
        for rows, probability in zip(range(1, limit + 1), survival, strict=False):
            tokens += probability
            speed = tokens / self(1 + fixed + rows)
            if speed > best:
                best, chosen = speed, rows
        return chosen, best

    def pays(self, rows: int, tokens: float, overhead_ms: float) -> bool:
        """Whether so many rows more, with so many expected tokens, gain more time than they and the overhead take."""
        step = self(self.sequences)
        return tokens * step / self.sequences > self(self.sequences + rows) - step + overhead_ms

    def nearly_free(self, allowance: float = 1.02) -> int:
        """Rows of each sequence beside its first that make a step at most so many times as long, as far as measured."""
        return bisect_right(self._times, allowance * self(self.sequences)) // self.sequences - 1
