"""Memory for weights, in large pages where the system has them: reading on then needs few addresses looked up."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from threading import Lock

import torch
from torch import Tensor

__all__ = ["Shelf"]

_LINE = 64  # bytes of the processor's caches


class Shelf:
    """Holds some tensors side by side, as long as one of them is in use. Safe from any thread.

    A step reads every weight, and for each page of 4 KiB the processor looks up where it is, in a virtual machine
    twice. Of pages that are 512 times as large it remembers all.

    Args:
        size: bytes of all tensors; what is never written takes no memory.
        tensors: how many, at most.
    """

    def __init__(self, size: int, tensors: int) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self._memory = mmap.mmap(-1, max(size, 1) + _LINE * tensors, **private)
        self._used, self._lock = 0, Lock()
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without them
                self._memory.madvise(mmap.MADV_HUGEPAGE)

    def room(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor that nothing has been written to yet. Raises ValueError where the shelf is full."""
        count = prod(shape)
        with self._lock:
            start = self._used
            self._used += -(-count * dtype.itemsize // _LINE) * _LINE
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start).view(*shape)
