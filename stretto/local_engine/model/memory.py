"""Gives memory back to the system that a loading has freed."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

__all__ = ["give_back"]


def give_back() -> None:
    """Collect what is left of a loading, and give its memory back to the system.

    glibc keeps freed blocks of up to 32 MB for later ones, which is most weights of a small model.
    """
    gc.collect()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another library than glibc
            ctypes.CDLL(None).malloc_trim(0)
