"""A queue between two tasks that yields to others only if it has to wait."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator
from typing import TypeVar

import anyio

T = TypeVar("T")


class Queue(AsyncIterator[T]):
    """Hands items from one task to another, in order; iterating over it takes them out.

    `anyio`'s memory object streams let every other task run before each item that is waited for; here that would delay
    a piece of text on its way to the reader.

    Args:
        most: number of queued items from which `put` waits.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._items: deque[T] = deque()
        self._ended = False
        self._moved = anyio.Event()  # one for both sides: a queue is never full and empty at once

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    async def put(self, item: T) -> None:
        """Add an item once there is room for it; after the end, it is dropped."""
        while len(self._items) >= self._most and not self._ended:
            await self._wait()
        self.add(item)

    def add(self, item: T) -> None:
        """Add an item, even beyond ``most``; after the end, it is dropped."""
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
        """Remove and return all queued items."""
        items = list(self._items)
        if items:
            self._items.clear()
            self._moved.set()
        return items

    def end(self) -> None:
        """Accept no more items; queued ones can still be taken. Idempotent."""
        self._ended = True
        self._moved.set()

    async def _wait(self) -> None:
        if self._moved.is_set():
            self._moved = anyio.Event()
        await self._moved.wait()
