"""How long direct answers of a model turned out: what forecasts go by, and the length that a plan asks for."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from dataclasses import dataclass, field

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend
from stretto.backends.tenants import asking
from stretto.foundation.latest import Latest
from stretto.values.route import Shape

LAST = 9
ENOUGH = 3
"""Answers that tell more than what is usual of all models."""
LEARNED: frozenset[Shape] = frozenset({"points", "steps", "prose"})
"""The length of others follows from what is given."""


def _last_ones() -> deque[int]:
    return deque(maxlen=LAST)


@dataclass
class Lengths:
    """Tokens of the last answers of one backend for one tenant, by shape, for as long as the process runs."""

    last: dict[Shape, deque[int]] = field(default_factory=lambda: defaultdict(_last_ones))

    def note(self, shape: Shape, tokens: int) -> None:
        """Note an answer that was left to end by itself."""
        if shape in LEARNED:
            self.last[shape].append(tokens)

    def typical(self, shape: Shape) -> int | None:
        """Their mean, by which the time of the next one is expected; ``None`` after too few."""
        seen = self.last.get(shape, ())
        return round(statistics.mean(seen)) if len(seen) >= ENOUGH else None


_LENGTHS = ByBackend(lambda: Latest(Lengths))


def lengths_of(backend: Backend) -> Lengths:
    """The lengths of a backend's texts for whoever asks, the same for all clients that use it.

    By what a route forecasts of one tenant's answers, no other learns how long they are.
    """
    return _LENGTHS.of(backend).of(asking())
