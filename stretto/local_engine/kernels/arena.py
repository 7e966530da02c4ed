"""Memory for weights, in huge pages if the system has them, so that few addresses need translation."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from threading import Lock

import torch
from torch import Tensor

_LINE = 64  # bytes of the processor's cache lines


class Arena:
    """One block of memory for many tensors; a tensor that is still in use keeps the whole block alive. Thread-safe.

    A step reads every weight. For each page, usually of 4 KiB, the processor translates the address, in a virtual
    machine twice. A huge page replaces 512 of them.

    Args:
        size: bytes of all tensors. Raises OSError if there is not enough memory.
        tensors: their maximum number.
    """

    def __init__(self, size: int, tensors: int) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self._memory = mmap.mmap(-1, max(size, 1) + _LINE * tensors, **private)
        self._used, self._lock = 0, Lock()
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)

    def allocate(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return an uninitialised tensor. Raises ValueError if there is no room for it."""
        size = prod(shape) * dtype.itemsize
        with self._lock:
            start = self._used
            if start + size > len(self._memory):
                raise ValueError(f"a tensor of {size} bytes has no room: {len(self._memory) - start} are left")
            self._used += -(-size // _LINE) * _LINE
        return torch.frombuffer(self._memory, dtype=dtype, count=prod(shape), offset=start).view(*shape)
