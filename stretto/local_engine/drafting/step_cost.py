"""What a step costs by its number of rows, and how many rows are worth that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

__all__ = ["StepCost"]


_FORGET = 1 / 8
_FORGIVE = 1 / 64
_PATIENCE = 3
_MOST_REFUSED = _PATIENCE + 6
_SPIKE = 4.0  # times as long as usual is not the step's own doing


class StepCost:
    """Milliseconds of a step by the rows in it, from a table measured on this machine.

    Between measured numbers of rows the cost is a straight line, beyond the last one it goes on as steeply, and it
    never falls: where more rows were measured to be cheaper, fewer cost the same.

    The table is of one short sequence. In a batch drafts cost more: masks, and attention of their own. So the steps
    that run tell what they took, and `ahead` goes by that.

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
        self._plain: dict[int, float] = {}  # milliseconds of a step without drafts, by sequences
        self._surplus: dict[int, float] = {}  # what steps with drafts took beyond the table, by octaves of sequences
        self._refused: dict[int, int] = {}  # drafts in a row of which nothing was evaluated, by octaves of sequences
        self._silence = 0  # drafts to come that are not made
        self._times = [times[0]]  # by rows, from 1 on
        for low, high, early, late in zip(rows, rows[1:], times, times[1:], strict=False):
            self._times += [early + (late - early) * (own - low) / (high - low) for own in range(low + 1, high + 1)]

    def __call__(self, rows: int) -> float:
        """Milliseconds of a step with this many rows, 1 or more."""
        beyond = rows - len(self._times)
        return self._times[rows - 1] if beyond <= 0 else self._times[-1] + self._steepness * beyond

    def observe(self, rows: int, took_ms: float) -> None:
        """Note what a step of `sequences` took, with so many rows over all of them."""
        sequences, octave = self.sequences, self.sequences.bit_length()
        plain, surplus = self._plain.get(sequences), self._surplus.get(octave, 0.0)
        if plain is not None:
            took_ms = min(took_ms, _SPIKE * plain)
        if rows <= sequences:
            self._plain[sequences] = took_ms if plain is None else plain + _FORGET * (took_ms - plain)
            self._surplus[octave] = surplus * (1 - _FORGIVE)  # what was dear is tried again some day
        elif plain is not None:
            beyond = took_ms - plain - (self(rows) - self(sequences))
            self._surplus[octave] = surplus + _FORGET * (max(beyond, 0.0) - surplus)

    def ahead(self, rows: int) -> float:
        """Milliseconds of the coming step of `sequences`, if it has so many rows over all of them."""
        own = self(self.sequences)
        plain = self._plain.get(self.sequences, own)
        if rows <= self.sequences:
            return plain
        return plain + self(rows) - own + self._surplus.get(self.sequences.bit_length(), 0.0)

    def offered(self, chosen: bool) -> None:
        """Note whether something was evaluated of the drafts of a step."""
        octave = self.sequences.bit_length()
        refused = self._refused[octave] = 0 if chosen else min(self._refused.get(octave, 0) + 1, _MOST_REFUSED)
        if refused >= _PATIENCE and self.sequences > 1:
            self._silence = self.sequences << refused - _PATIENCE

    def silent(self) -> bool:
        """Ask before a draft whether the batch is one in which none has paid for some steps, each time for more."""
        if self._silence == 0 or self.sequences == 1:
            return False
        self._silence -= 1
        return True

    def pays(self, rows: int, tokens: float, overhead_ms: float) -> bool:
        """Whether so many rows more, with so many expected tokens, gain more time than they and the overhead take."""
        step = self.ahead(self.sequences)
        return tokens * step / self.sequences > self.ahead(self.sequences + rows) - step + overhead_ms

    def nearly_free(self, allowance: float = 1.02) -> int:
        """Rows of each sequence beside its first that make a step at most so many times as long, as far as measured."""
        return bisect_right(self._times, allowance * self(self.sequences)) // self.sequences - 1
