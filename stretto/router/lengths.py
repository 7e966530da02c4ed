"""How long the straight answers of a model turned out, by the shape of the answer: what forecasts go by."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from dataclasses import dataclass, field

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend
from stretto.route import Shape

LAST = 9
ENOUGH = 2
"""Answers that tell more than what is usual of all models."""
LEARNED: frozenset[Shape] = frozenset({"points", "steps", "prose"})  # the length of others follows from what is given


def _last_ones() -> deque[int]:
    return deque(maxlen=LAST)


@dataclass
class Lengths:
    """Tokens of the last straight answers of one backend, for as long as the process runs."""

    last: dict[Shape, deque[int]] = field(default_factory=lambda: defaultdict(_last_ones))

    def note(self, shape: Shape, tokens: int) -> None:
        """Note one that was left to end by itself."""
        if shape in LEARNED:
            self.last[shape].append(tokens)

    def typical(self, shape: Shape) -> int | None:
        """Their median; ``None`` after too few."""
        seen = self.last.get(shape, ())
        return round(statistics.median(seen)) if len(seen) >= ENOUGH else None


_LENGTHS = ByBackend(Lengths)


def lengths_of(backend: Backend) -> Lengths:
    """The lengths of a backend's straight answers, the same for all clients that use it."""
    return _LENGTHS.of(backend)
