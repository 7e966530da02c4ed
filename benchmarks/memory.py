"""How much memory this process has, and whether it grows."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_PARTS = 20
_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


@dataclass(frozen=True)
class Slope:
    """What each request adds.

    Attributes:
        each: by least squares over the medians of some requests.
        error: the standard error of that.
    """

    each: float
    error: float

    @classmethod
    def of(cls, values: Sequence[int]) -> Slope:
        """Of values by request; 0 where they are too few."""
        if len(values) < 2 * _PARTS:
            return cls(0.0, 0.0)
        parts = np.array_split(np.arange(len(values)), _PARTS)
        medians = [float(np.median(np.take(values, part))) for part in parts]
        line, covariance = np.polyfit([float(part.mean()) for part in parts], medians, 1, cov=True)
        return cls(float(line[0]), float(covariance[0, 0]) ** 0.5)


def resident_bytes() -> int:
    """Memory of this process; where the system does not report it, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # noqa: PLC0415 - not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def given_out() -> int | None:
    """Bytes that malloc has given out and not got back: tensors, not Python's small objects. None without glibc."""
    if not sys.platform.startswith("linux") or not hasattr(library := ctypes.CDLL(None), "mallinfo2"):
        return None
    library.mallinfo2.restype = _MallInfo
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)
