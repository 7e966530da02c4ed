"""A pool of n-grams: for each token the continuations seen last."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NGramPool"]


class NGramPool:
    """Continuations of each token, a limited number, the least recently added one forgotten first.

    Args:
        size: tokens of an n-gram, its key included.
        per_key: continuations of one token at most.
    """

    def __init__(self, size: int, per_key: int) -> None:
        self.size = size
        self._per_key = per_key
        self._continuations: dict[int, dict[tuple[int, ...], None]] = {}  # oldest first
        self._read = 0

    def add(self, key: int, continuation: Sequence[int]) -> None:
        """Add an n-gram, or make it the latest one."""
        held = self._continuations.setdefault(key, {})
        value = tuple(continuation)
        held.pop(value, None)
        held[value] = None
        if len(held) > self._per_key:
            del held[next(iter(held))]

    def read_on(self, text: Sequence[int]) -> None:
        """Add the n-grams of a text that end behind what was read of it before."""
        for end in range(max(self._read, self.size - 1), len(text)):
            self.add(text[end - self.size + 1], text[end - self.size + 2 : end + 1])
        self._read = len(text)

    def get(self, key: int) -> list[tuple[int, ...]]:
        """The continuations of a token, the latest first."""
        return list(self._continuations.get(key, ()))[::-1]
