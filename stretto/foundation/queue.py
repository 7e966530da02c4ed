"""A queue between two tasks that lets nothing else run in between unless it has to wait."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator
from typing import TypeVar

import anyio

T = TypeVar("T")


class Queue(AsyncIterator[T]):
    """Hands items from one task to another, in order; iterating over it takes them out.

    `anyio`'s memory object streams give every other task its turn before each item that is waited for; here
    that would come between a piece of text and its reader.

    Args:
        most: items that may lie in it before `put` waits.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._items: deque[T] = deque()
        self._ended = False
        self._moved = anyio.Event()  # one for both sides: no queue is full and empty at once

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    async def put(self, item: T) -> None:
        """Add an item once there is room for it; dropped after the end."""
        while len(self._items) >= self._most and not self._ended:
            await self._wait()
        self.add(item)

    def add(self, item: T) -> None:
        """Add an item, room or not; dropped after the end."""
        if not self._ended:
            self._items.append(item)
            self._moved.set()

    async def __anext__(self) -> T:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        item = self._items.popleft()
        self._moved.set()
        return item

    def ready(self) -> list[T]:
        """Take out all that lies in it now."""
        items = list(self._items)
        if items:
            self._items.clear()
            self._moved.set()
        return items

    def end(self) -> None:
        """Take nothing more; what lies in it can still be taken. Idempotent."""
        self._ended = True
        self._moved.set()

    async def _wait(self) -> None:
        if self._moved.is_set():
            self._moved = anyio.Event()
        await self._moved.wait()
