"""How functions are compiled: by numba, when they are first called."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from numba import njit
from platformdirs import user_cache_path

from stretto.local_engine.kernels.kept import keeping

__all__ = ["VERSION", "entry", "first_call", "inner", "summing"]

_ENGINE = Path(__file__).parents[1]
_PATTERNS = ("kernels/*.py", "drafting/compiled/*.py", "drafting/*/compiled.py")
_COMPILED = sorted(path for pattern in _PATTERNS for path in _ENGINE.glob(pattern))
VERSION = zlib.crc32(b"".join(path.read_bytes() for path in _COMPILED))
"""An entry takes it as its last argument: numba keeps compiled code until the entry's own file changes, or this."""

inner = njit(nogil=True, error_model="numpy")
"""For what is called by compiled functions only."""

summing = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
"""For sums over one row, which may be taken in any order: it is the same for all rows."""

_called: set[object] = set()
_NO_FIRST = nullcontext(False)


def entry(function: Callable[..., Any]) -> Any:
    """For what Python calls: compiled once for a machine, and kept beside the source, with all that it calls."""
    try:
        return keeping(function, nogil=True, error_model="numpy")
    except RuntimeError:  # there is no place to write to: it is compiled in each process
        return inner(function)


def first_call(kind: object) -> AbstractContextManager[bool]:
    """Whether an entry was never called with arguments of this kind: it is compiled then, by one process at a time.

    numba's files are not made for two that write at once.
    """
    return _NO_FIRST if kind in _called else _first_call(kind)


@contextmanager
def _first_call(kind: object) -> Iterator[bool]:
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # no locks on Windows and some network drives, or no place to write to
            import fcntl  # noqa: PLC0415

            file = stack.enter_context((user_cache_path("stretto", ensure_exists=True) / "compiling.lock").open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield True
    _called.add(kind)
