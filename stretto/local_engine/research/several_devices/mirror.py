"""Key-value caches that are held elsewhere: what the engine does to its own is done to those of every process."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source

__all__ = ["Change", "Mirror", "repeat"]

Change = list[Any]
"""What was done, as JSON: its name, the number of the cache, and its arguments; caches are numbers."""


class Mirror:
    """Notes what is done to caches, until it is told to the processes with the next forward. For one thread.

    A cache of the engine that stands for such a cache has no layers. It keeps count of sequences and slots only.

    Args:
        bytes_per_slot: of a slot of one sequence, over all processes.
    """

    def __init__(self, bytes_per_slot: int) -> None:
        self.bytes_per_slot = bytes_per_slot
        self._numbers: WeakKeyDictionary[KeyValueCache, int] = WeakKeyDictionary()
        self._count = 0
        self._changes: deque[Change] = deque()  # any thread may append to it: that which collects garbage does

    def number(self, cache: KeyValueCache) -> int:
        """The number of a cache; a cache that is new to it becomes one that is held elsewhere."""
        if cache not in self._numbers:
            if cache.mirror is None:
                self._add(cache)
                self._changes.append(["new", self._numbers[cache], cache.batch])
                cache.mirror = self
            else:  # made from others by what was told
                self._add(cache)
        return self._numbers[cache]

    def note(self, cache: KeyValueCache, what: str, *arguments: Any) -> None:
        """Note that ``what``, a method of `KeyValueCache`, was called."""
        self._changes.append([what, self.number(cache), *map(self._written, arguments)])

    def taken(self) -> list[Change]:
        """What was done since the last time, in order."""
        taken = []
        while self._changes:
            taken.append(self._changes.popleft())
        return taken

    def _add(self, cache: KeyValueCache) -> None:
        self._count += 1
        self._numbers[cache] = self._count
        weakref.finalize(cache, self._changes.append, ["drop", self._count]).atexit = False

    def _written(self, argument: Any) -> Any:
        if isinstance(argument, KeyValueCache):
            return self.number(argument)
        if isinstance(argument, Source):
            return [self.number(argument.cache), argument.sequence, argument.length]
        if isinstance(argument, Sequence):
            return [self._written(each) for each in argument]
        return argument


def repeat(changes: Sequence[Change], caches: dict[int, KeyValueCache]) -> None:
    """Do to the caches of this process what was done to those of the engine.

    Args:
        changes: what was done.
        caches: of this process, by their numbers.
    """
    for what, number, *arguments in changes:
        match what:
            case "new":
                caches[number] = KeyValueCache(*arguments)
            case "drop":
                caches.pop(number, None)
            case "copied":
                sources, capacity = arguments
                known = [None if each is None else Source(caches[each[0]], each[1], each[2]) for each in sources]
                caches[number] = KeyValueCache.copied(known, capacity)
            case "join":
                caches.setdefault(number, KeyValueCache(0)).join(caches[arguments[0]])
            case "put":
                sequence, other, length = arguments
                caches[number].put(sequence, caches[other], length)
            case "move" | "keep":
                getattr(caches[number], what)(*arguments)
            case _:
                raise ValueError(f"nothing is known of {what!r}")
