"""What a step costs by its number of rows, and how many rows are worth that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

__all__ = ["PACE", "StepCost"]

PACE = 0.97
"""How fast a request is to get its tokens at least while others draft, compared with how it was without."""

_FORGET = 1 / 8
_DRAFTING = 0.1  # milliseconds, until it is known
_FORGIVE = 1 / 64
_SPIKE = 4.0  # times as long as usual is not the step's own doing
_FURTHEST = 512  # rows beyond those measured that a step may have
_SHARE = 1 / 256
_SHORT = 1 / 16
_TOGETHER = 4  # steps within which requests have to have something to draft, to have it at the same time
_GUESS = {1: 1.0, 2: 1.7, 8: 2.2, 64: 5.0}  # times a step of one row: as dear as rows are on a slow CPU


class StepCost:
    """Milliseconds of a step by the rows in it, from a table measured on this machine.

    Between measured numbers of rows the cost is a straight line, beyond the last one it goes on as steeply, and it
    never falls: where more rows were measured to be cheaper, fewer cost the same.

    The table is of one short sequence. In a batch drafts cost more: masks, and attention of their own. So the steps
    that run tell what they took, and `ahead` goes by that. Until there is a table, rows are taken to be dear.

    Args:
        measured: milliseconds by number of rows; one row is among them. `None` where it comes later, by `fit`.

    Attributes:
        sequences: that share a step now; each has a row of its own in any case.
        measured: whether there is a table.
        beyond: how much longer the last step took than one without drafts, in such steps; 0 until these are known.
        watching: whether this is one of the steps in which those of a batch look whether their texts repeat themselves.
    """

    sequences = 1
    beyond = 0.0
    watching = True

    def __init__(self, measured: Mapping[int, float] | None = None) -> None:
        self._plain: dict[int, float] = {}  # milliseconds of a step without drafts, by sequences
        self._surplus: dict[int, float] = {}  # what steps with drafts took beyond the table, by octaves of sequences
        self.measured = measured is not None
        self._unit = 1.0  # milliseconds of a time in the table, while that is a guess
        self._drafting, self._spares = _DRAFTING, True
        self._steps, self._hoping, self._hoped = 0, set[int](), 0
        self._tabulate(_GUESS if measured is None else measured)

    def fit(self, measured: Mapping[int, float]) -> None:
        """Go by this table from now on."""
        self._tabulate(measured)
        self._unit, self.measured = 1.0, True
        self._surplus.clear()

    def _tabulate(self, measured: Mapping[int, float]) -> None:
        if min(measured, default=0) != 1 or min(measured.values()) <= 0:
            raise ValueError(f"{dict(measured)} is no table of step costs: it needs times above 0, that of 1 row too.")
        rows = sorted(measured)
        times = [min(measured[more] for more in rows if more >= own) for own in rows]
        self._steepness = (times[-1] - times[-2]) / (rows[-1] - rows[-2]) if len(rows) > 1 else 0.0
        found = [times[0]]  # by rows, from 1 on
        for low, high, early, late in zip(rows, rows[1:], times, times[1:], strict=False):
            found += [early + (late - early) * (own - low) / (high - low) for own in range(low + 1, high + 1)]
        self._times = found
        self._curve = [*found, *(found[-1] + self._steepness * more for more in range(1, _FURTHEST))]

    def __call__(self, rows: int) -> float:
        """Milliseconds of a step with this many rows, 1 or more."""
        beyond = rows - len(self._times)
        times = self._times[rows - 1] if beyond <= 0 else self._times[-1] + self._steepness * beyond
        return self._unit * times

    def observe(self, rows: int, took_ms: float) -> None:
        """Note what a step of `sequences` took, with so many rows over all of them."""
        sequences, octave = self.sequences, self.sequences.bit_length()
        plain, surplus = self._plain.get(sequences), self._surplus.get(octave, 0.0)
        self.beyond = 0.0
        if plain is not None:
            took_ms = min(took_ms, _SPIKE * plain)
            self.beyond = took_ms / plain - 1
        if rows <= sequences:
            plain = self._plain[sequences] = took_ms if plain is None else plain + _FORGET * (took_ms - plain)
            if not self.measured:  # how much dearer more rows are is a guess, but not what one takes
                self._unit *= plain / self(sequences)
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

    def curve(self) -> tuple[list[float], float, float, float, int]:
        """`ahead` for compiled code: a table t by rows, p, u, s and `sequences` n.

        A step without drafts takes p milliseconds, one with r rows more p + s + u (t[n + r - 1] - t[n - 1]). The table
        is another list when it has changed.
        """
        own = self.sequences
        return self._curve, self.ahead(own), self._unit, self._surplus.get(own.bit_length(), 0.0), own

    def drafted(self, took_ms: float) -> None:
        """Note what looking for a draft took, and learning from what became of it."""
        took_ms = min(took_ms, _SPIKE * self._drafting)  # the processor may have been elsewhere
        self._drafting += _FORGET * (took_ms - self._drafting)

    def spares(self) -> bool:
        """Whether drafting is so short beside a step of one row that guesses may be tried which seldom come true.

        These take time themselves, so it stays so until drafting is twice as long. Until a step was timed it is so.
        """
        if self.measured or self._plain:
            share = self._drafting / self(1)
            self._spares = share < (2 * _SHORT if self._spares else _SHORT)
        return self._spares

    def patience(self) -> float:
        """What a request may spend in a step on looking for drafts where none paid lately, in steps.

        All of a batch together spend what one does that is alone: they look in one of a few steps.
        """
        return _SHARE if self.sequences == 1 else _TOGETHER * _SHARE / self.sequences

    def gain(self, rows: int, tokens: float) -> float:
        """Steps that so many rows more save, with so many expected tokens, beyond what they and drafting them take."""
        step = self.ahead(self.sequences)
        return tokens / self.sequences - (self.ahead(self.sequences + rows) - step + self._drafting) / step

    def begin(self, sequences: int) -> None:
        """A step of so many begins."""
        self.sequences, self.watching = sequences, self._steps % _TOGETHER == 0
        if self.watching:
            self._hoping, self._hoped = set(), len(self._hoping)
        self._steps += 1

    def invites(self, drafter: object) -> bool:
        """Whether a drafter that has something to draft may find that evaluated; it counts as one that has.

        A request's draft alone must not slow the others down, so where a row costs more than that, all of them need
        to have something to draft.
        """
        self._hoping.add(id(drafter))
        plain = self.ahead(self.sequences)
        return self._hoped >= self.sequences or PACE * self.ahead(self.sequences + 1) <= plain

    def nearly_free(self, allowance: float = 1.02) -> int:
        """Rows of each sequence beside its first that make a step at most so many times as long, as far as measured."""
        return bisect_right(self._times, allowance * self(self.sequences) / self._unit) // self.sequences - 1
