"""Caches how documents were cut, so that the next question about them starts at once. Bounded; safe between threads.

It belongs to one client and goes with it. It holds offsets and counts under a hash of each text, and no text. What one
tenant's documents left in it speeds up no other tenant's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import blake2b
from threading import Lock
from typing import TypeVar, cast

from stretto.backends.tenants import asking
from stretto.values.document import Document

__all__ = ["DocumentCache"]

T = TypeVar("T")


class DocumentCache:
    """Values by document and purpose, the least recently used out first.

    Args:
        most_characters: of all documents that are kept, each counted once for each purpose; no document longer than
            half of it is kept.
    """

    def __init__(self, most_characters: int = 64_000_000) -> None:
        self._most = most_characters
        self._size = 0
        self._kept: OrderedDict[Hashable, tuple[int, object]] = OrderedDict()
        self._lock = Lock()

    def keep(self, document: Document, purpose: Hashable, make: Callable[[], T]) -> T:
        """The value that was kept for this document and purpose, else a new one."""
        key = (asking(), _digest(document), purpose)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key][1])
        value = make()  # two threads may both make it: neither waits for the other's document
        size = len(document.text)
        with self._lock:
            if size <= self._most // 2 and key not in self._kept:
                self._kept[key] = (size, value)
                self._size += size
                while self._size > self._most:
                    self._size -= self._kept.popitem(last=False)[1][0]
        return value


def _digest(document: Document) -> bytes:
    """A hash of everything that decides how a document is cut."""
    digest = blake2b(document.text.encode("utf-8", "surrogatepass"))
    for heading in document.headings:
        digest.update(f"\n{heading.offset} {heading.level} {heading.text}".encode("utf-8", "surrogatepass"))
    return digest.digest()
