"""Returns memory to the system after a loading has freed it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENOUGH = 2**25  # bytes


def give_back() -> None:
    """Collect the garbage of a loading, and return its memory to the system.

    glibc keeps freed blocks of up to 32 MB for reuse, which covers most weights of a small model.
    """
    gc.collect()
    _trim()


@contextmanager
def older_objects_kept() -> Iterator[None]:
    """Make `give_back` collect only objects created inside the context, not the million objects of libraries."""
    if gc.get_freeze_count():  # another caller does the same
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Freed:
    """Returns memory to the system after each 32 MB, while much of it is freed bit by bit."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, size: int) -> None:
        """Record that so many bytes were freed. Thread-safe; at worst two threads return memory at the same time."""
        self._bytes += size
        if self._bytes >= _ENOUGH:
            self._bytes = 0
            _trim()


def _trim() -> None:
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another library than glibc
            ctypes.CDLL(None).malloc_trim(0)
