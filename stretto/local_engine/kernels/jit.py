"""How functions are compiled: by numba, which is imported when compiled code first runs, and not by the decorators."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from stretto.local_engine.kernels.switch import runs_compiled

__all__ = ["Kernel", "NotCompiledError", "entry", "inner", "look_again", "python_or_compiled", "summing"]

_OPTIONS = {"nogil": True, "error_model": "numpy"}
_making = threading.RLock()
_looked = [0]


class NotCompiledError(RuntimeError):
    """A function was not compiled for what it is called with. A process that serves requests never compiles."""


class Kernel:
    """A function that numba compiles, and that it finds under its own name in other functions.

    Args:
        function: in Python.
        kept: whether its code is kept on disk, with the code of all that it calls.
        options: of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], *, kept: bool, **options: Any) -> None:
        self.function, self._kept, self._options = function, kept, {**_OPTIONS, **options}
        self._made: Any = None
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @property
    def compiled(self) -> Any:
        """What numba makes of it. Called with types that it was not compiled for, it raises `NotCompiledError`."""
        if self._made is None:
            from stretto.local_engine.kernels.kept import made  # noqa: PLC0415 - it imports numba

            with _making:
                self._made = self._made or made(self.function, kept=self._kept, **self._options)
        return self._made

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of an object that a compiled function names."""
        return self.compiled._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Run it in Python, as other functions do that run in Python."""
        return self.function(*arguments)


class _Entry(Kernel):
    """What runs compiled only: it is made of what Python has not."""

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


class _Either(Kernel):
    """What runs compiled in threads that do so (see `switch`), and in Python in others, or where it is not there."""

    _missing_since = -1

    def __call__(self, *arguments: Any) -> Any:
        if self._missing_since < _looked[0] and runs_compiled():
            try:
                return self.compiled(*arguments)
            except NotCompiledError:
                self._missing_since = _looked[0]
        with np.errstate(over="ignore"):  # hashes are multiplied as the processor does it
            return _as_numba_gives(self.function(*arguments))


def _as_numba_gives(result: Any) -> Any:
    """Numbers of Python in the place of numpy's."""
    if isinstance(result, tuple):
        return tuple(map(_as_numba_gives, result))
    return result.item() if isinstance(result, np.generic) else result


def look_again() -> None:
    """Look for compiled code that was not there before."""
    _looked[0] += 1


def inner(function: Callable[..., Any]) -> Kernel:
    """For what is called by compiled functions only."""
    return Kernel(function, kept=False)


def summing(function: Callable[..., Any]) -> Kernel:
    """For sums over one row, which may be taken in any order: it is the same for all rows."""
    return Kernel(function, kept=False, fastmath={"reassoc", "contract", "nsz", "arcp"})


def entry(function: Callable[..., Any]) -> Kernel:
    """For what torch's side calls: compiled once for a machine and kept, with all that it calls."""
    return _Entry(function, kept=True)


def python_or_compiled(function: Callable[..., Any]) -> Kernel:
    """For what drafters call: the same, where there is compiled code; else it runs as it is written."""
    return _Either(function, kept=True)
