"""How long direct answers, outlines and points of a model turned out: what forecasts go by."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend
from stretto.route import Shape

Kind = Shape | Literal["outline", "point"]
"""A direct answer of this shape, an outline, or one point."""

LAST = 9
ENOUGH = 3
"""Answers that tell more than what is usual of all models."""
SHORT = 64
"""Tokens of a direct answer that ends before a weak model is asked for points instead (`stretto.strategies.rival`)."""
LEARNED: frozenset[Kind] = frozenset({"points", "steps", "prose", "outline", "point"})
"""The length of others follows from what is given."""


def _last_ones() -> deque[int]:
    return deque(maxlen=LAST)


@dataclass
class Lengths:
    """Tokens of the last texts of one backend, by kind, for as long as the process runs."""

    last: dict[Kind, deque[int]] = field(default_factory=lambda: defaultdict(_last_ones))

    def note(self, kind: Kind, tokens: int) -> None:
        """Note a text that was left to end by itself."""
        if kind in LEARNED:
            self.last[kind].append(tokens)

    def typical(self, kind: Kind, least: int = 0) -> int | None:
        """Their mean, by which the time of the next one is expected; ``None`` after too few.

        ``least``: tokens below which a text does not count, unless hardly any is longer.
        """
        seen = self.last.get(kind, ())
        longer = [tokens for tokens in seen if tokens >= least]
        return round(statistics.mean(longer if len(longer) >= ENOUGH else seen)) if len(seen) >= ENOUGH else None


_LENGTHS = ByBackend(Lengths)


def lengths_of(backend: Backend) -> Lengths:
    """The lengths of a backend's texts, the same for all clients that use it."""
    return _LENGTHS.of(backend)
