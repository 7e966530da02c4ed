"""The requests of a batch and their keys and values: what a batch is, whatever its loop does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from stretto.local_engine.model.cache import KeyValueCache

__all__ = ["BatchMembers"]

Member = TypeVar("Member")
"""A request with what a loop knows of it."""


class BatchMembers(Generic[Member]):
    """Requests in the order of their rows in one cache."""

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._cache = KeyValueCache(0)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def slots(self) -> int:
        """Slots of keys and values that are allocated, over all requests."""
        return self._cache.slots

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these requests, in this order; the others leave the batch and free their cache."""
        if len(rows) == len(self._members):
            return
        self._members = [self._members[row] for row in rows]
        self._cache.keep(rows)
