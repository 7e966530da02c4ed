"""Gives memory back to the system that a loading has freed."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["Freed", "give_back", "older_objects_kept"]

_ENOUGH = 2**25  # bytes


def give_back() -> None:
    """Collect what is left of a loading, and give its memory back to the system.

    glibc keeps freed blocks of up to 32 MB for later ones, which is most weights of a small model.
    """
    gc.collect()
    _trim()


@contextmanager
def older_objects_kept() -> Iterator[None]:
    """Let `give_back` look for garbage among the objects that are made meanwhile, not among a million of libraries."""
    if gc.get_freeze_count():  # somebody else does the same
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Freed:
    """Gives memory back to the system while much of it is freed bit by bit: after each 32 MB."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, size: int) -> None:
        """Note that so many bytes were freed. From any thread; at worst two give back at the same time."""
        self._bytes += size
        if self._bytes >= _ENOUGH:
            self._bytes = 0
            _trim()


def _trim() -> None:
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another library than glibc
            ctypes.CDLL(None).malloc_trim(0)
