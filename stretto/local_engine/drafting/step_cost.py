"""Cost of a step by its number of rows: a table measured on this machine, corrected by the steps that run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PACE = 0.97
"""Minimum speed of a request while others draft, relative to its speed without their drafts."""

_FORGET = 1 / 8
_LEARN = 1 / 4
_DRAFTING_MS = 0.1  # initial estimate
_SPIKE = 4.0  # a step that took this many times as long as usual was delayed by something else
_FURTHEST = 512  # rows beyond the measured ones that a step can have
_SHARE = 1 / 256  # share of a step spent on attempts to draft while they do not pay
_DOUBT = 1 / 256  # decay of the ratio of drafted rows per step without drafts: a busy minute is forgotten
_LEAST, _MOST = 0.5, 3.0  # bounds of that ratio
_GUESS = {1: 1.0, 2: 1.5, 4: 1.7, 8: 2.5, 16: 4.5, 32: 8.0, 64: 16.0}  # in steps of one row, as on a slow CPU


class CostTable:
    """Milliseconds of a step of one short sequence, by its number of rows.

    Between measured numbers of rows the cost is interpolated; after the last one it is extrapolated. More rows can cost
    less: a processor that handles them in groups is faster with a full one.

    Args:
        measured: milliseconds by number of rows, including 1 row. Raises `ValueError` otherwise.
    """

    def __init__(self, measured: Mapping[int, float]) -> None:
        if min(measured, default=0) != 1 or min(measured.values()) <= 0:
            raise ValueError(f"{dict(measured)} is no table of step costs: it needs times above 0, that of 1 row too.")
        rows = sorted(measured)
        found = [measured[1]]
        for low, high in pairwise(rows):
            rise = (measured[high] - measured[low]) / (high - low)
            found += [measured[low] + rise * more for more in range(1, high - low + 1)]
        middle = len(found) // 2
        slope = max(0.0, found[-1] - found[middle]) / max(1, len(found) - 1 - middle)
        self._times = [*found, *(found[-1] + slope * more for more in range(1, _FURTHEST))]

    def __call__(self, rows: int) -> float:
        """Return the milliseconds of a step with this many rows, 1 or more."""
        return self._times[min(rows, len(self._times)) - 1]


_GUESSED = CostTable(_GUESS)


class StepCost:
    """Predicts the duration of the next step, from the table and from the steps that ran.

    The table is for one short sequence. Steps report their duration (`observe`). `ahead` starts from the recent
    duration of steps without drafts, and adds the table's cost of further rows, scaled by the ratio of their observed
    cost to the table's. Both are learned for each number of sequences.
    Until there is a table, rows are assumed to be expensive.

    Args:
        measured: see `CostTable`. `None` if the table comes later, by `fit`.

    Attributes:
        sequences: number of sequences that share the coming step; each has a row for its last token.
        measured: whether there is a table.
        beyond: fraction by which the last step took longer than one without drafts; 0 until the time of these is known.
    """

    def __init__(self, measured: Mapping[int, float] | None = None) -> None:
        self.sequences = 1
        self.beyond = 0.0
        self.measured = measured is not None
        self._table = _GUESSED if measured is None else CostTable(measured)
        self._unit = 1.0  # milliseconds of 1.0 in the table, while the table is a guess
        self._plain: dict[int, float] = {}  # milliseconds of a step without drafts, by sequences
        self._observed: dict[int, float] = {}  # milliseconds by number of rows, until there is a table
        self._ratio: dict[int, float] = {}  # observed to tabulated cost of drafted rows, by sequences
        self._drafting_ms = _DRAFTING_MS

    def fit(self, measured: Mapping[int, float]) -> None:
        """Use this table from now on; see `CostTable`."""
        self._table, self._unit, self.measured = CostTable(measured), 1.0, True
        self._observed.clear()
        self._ratio.clear()

    def __call__(self, rows: int) -> float:
        """Return the milliseconds of a step with this many rows, 1 or more, by the table."""
        return self._unit * self._table(rows)

    def lately(self, rows: int) -> float:
        """Return the same, scaled to the machine's current pace: it may have been busy when the table was measured.

        The pace is that of the last steps without drafts with the nearest number of sequences.
        """
        plain = self.plain
        if not plain:
            return self(rows)
        nearest = min(plain, key=lambda sequences: max(rows, sequences) / min(rows, sequences))
        return self(rows) * plain[nearest] / self(nearest)

    @property
    def plain(self) -> Mapping[int, float]:
        """Recent milliseconds of a step without drafts, by number of sequences. Safe from any thread."""
        return dict(self._plain)

    def begin(self, sequences: int) -> None:
        """Record that a step of this many sequences begins."""
        self.sequences = sequences

    def observe(self, rows: int, took_ms: float, drafting_ms: float = 0.0) -> None:
        """Record the duration of a step of `sequences`, with this many rows over all of them.

        Args:
            rows: number of rows over all sequences.
            took_ms: duration of the whole step.
            drafting_ms: part of it spent on drafting, which does not count as cost of the rows.
        """
        sequences, plain = self.sequences, self._plain.get(self.sequences)
        self.beyond, whole_ms, took_ms = 0.0, took_ms, took_ms - drafting_ms
        if plain is not None:
            most = _SPIKE * max(plain, self(rows) if rows > sequences else 0.0)
            self.beyond, took_ms = min(whole_ms, most) / plain - 1, min(took_ms, most)
        if rows <= sequences:
            plain = self._plain[sequences] = took_ms if plain is None else plain + _FORGET * (took_ms - plain)
            if sequences in self._ratio:
                self._ratio[sequences] += _DOUBT * (1.0 - self._ratio[sequences])
            if not self.measured:  # then the cost of one row is known, and that of more rows is still a guess
                self._unit *= plain / self(sequences)
        elif not self.measured:
            self._see(rows, took_ms)
        elif plain is not None and (extra := self(rows) - self(sequences)) > 0:
            ratio, share = self._ratio.get(sequences, 1.0), _LEARN * min(1.0, extra / plain)
            took = min(max((took_ms - plain) / extra, _LEAST), _MOST)
            self._ratio[sequences] = ratio + share * (took - ratio)

    def _see(self, rows: int, took_ms: float) -> None:
        """Learn the cost of this number of rows from a step, until there is a table."""
        if self.sequences > 1 or 1 not in self._plain:
            return
        before = self._observed.get(rows, took_ms)
        self._observed[rows] = before + _LEARN * (took_ms - before)
        plain, ratio, table = self._plain[1], 1.0, dict[int, float]()
        for known in sorted({*_GUESS, *self._observed}):  # unseen numbers are scaled like the nearest seen one below
            guess = plain * _GUESSED(known)
            if known in self._observed:
                ratio = max(1.0, self._observed[known] / guess)
            table[known] = max(plain, self._observed.get(known, guess * ratio))
            if known in self._observed:  # fewer rows are assumed to cost no more, until they are seen
                table |= {fewer: min(ms, table[known]) for fewer, ms in table.items() if fewer not in self._observed}
        self._table, self._unit = CostTable(table), 1.0

    def ahead(self, rows: int) -> float:
        """Return the milliseconds of the coming step, if it has this many rows over all of its sequences."""
        return self.ahead_of((rows,))[0]

    def ahead_of(self, counts: Iterable[int]) -> list[float]:
        """Return `ahead` for multiple numbers of rows."""
        own, table, unit = self.sequences, self._table, self._unit
        first, unit = self(own), unit * self._ratio.get(own, 1.0)
        plain = self._plain.get(own, first)
        drafted = plain - unit * table(own)
        return [plain if rows <= own else drafted + unit * table(rows) for rows in counts]

    def drafted(self, took_ms: float) -> None:
        """Record how long making a draft and learning from it took."""
        took_ms = min(took_ms, _SPIKE * self._drafting_ms)
        self._drafting_ms += _FORGET * (took_ms - self._drafting_ms)

    def patience(self) -> float:
        """Return how much of a step a request can spend on attempts to draft while drafts do not pay.

        All requests of a batch together spend as much as a single one would.
        """
        return _SHARE / self.sequences

    def gain(self, rows: int, tokens: float) -> float:
        """Return the net gain, in plain steps, of this many extra rows that are expected to yield ``tokens``."""
        step = self.ahead(self.sequences)
        return tokens / self.sequences - (self.ahead(self.sequences + rows) - step + self._drafting_ms) / step


_FINE_S = 1e-5  # resolution of a clock that can time a step


def step_clock(device: torch.device) -> Callable[[], float]:
    """Return the clock for comparing steps, in seconds.

    On a CPU it is this thread's CPU time, since the extra cost of multiple rows is computation: by the wall clock,
    eight rows seemed to cost as much as one while other programs used the processor. A GPU computes while this thread
    waits, so there, and where the system's resolution is coarse, it is the wall clock.
    """
    counts = device.type == "cpu" and time.get_clock_info("thread_time").resolution <= _FINE_S
    return time.thread_time if counts else time.perf_counter
