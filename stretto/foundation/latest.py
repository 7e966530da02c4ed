"""A mapping that keeps the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """An LRU mapping with values for the ``most`` latest keys, created by ``new``. Thread-safe."""

    def __init__(self, new: Callable[[], Value], most: int = 32) -> None:
        self._new = new
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def of(self, key: Hashable) -> Value:
        """Return the value of a key; a new one if the key was not used recently."""
        with self._lock:
            value = self._kept[key] if key in self._kept else self._kept.setdefault(key, self._new())
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return value

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
