"""Figures of each decoding method, over all requests of one engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from stretto.local_engine.generation import Figures

_MEMORY = 4000  # steps of a method, after which older ones count half


class Record:
    """Adds up the figures of finished generations, by method. Safe from any thread."""

    def __init__(self, memory: int = _MEMORY) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._sums: dict[str, Figures] = {}

    def add(self, figures: Figures) -> None:
        """Add the figures of one generation."""
        with self._lock:
            known = self._sums.get(figures.decoding, Figures(figures.decoding))
            self._sums[figures.decoding] = _sum(_halved(known) if known.steps > self._memory else known, figures)

    def by_method(self) -> dict[str, Figures]:
        """Return the sums so far, by method."""
        with self._lock:
            return dict(self._sums)


def _sum(one: Figures, other: Figures) -> Figures:
    return Figures(
        one.decoding,
        one.steps + other.steps,
        one.rows + other.rows,
        one.tokens + other.tokens,
        _added(one.drafted, other.drafted),
        _added(one.accepted, other.accepted),
    )


def _halved(figures: Figures) -> Figures:
    return Figures(
        figures.decoding,
        figures.steps // 2,
        figures.rows // 2,
        figures.tokens // 2,
        {source: rows // 2 for source, rows in figures.drafted.items()},
        {source: rows // 2 for source, rows in figures.accepted.items()},
    )


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in dict.fromkeys((*one, *other))}
