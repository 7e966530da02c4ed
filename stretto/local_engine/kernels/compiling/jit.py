"""Decorators for functions that numba compiles, and whether this thread runs compiled code.

numba is imported when compiled code first runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

_OPTIONS = {"nogil": True, "error_model": "numpy"}
_making = threading.RLock()
_looked = [0]


class NotCompiledError(RuntimeError):
    """A function was not compiled for these types of arguments. A process that serves requests never compiles."""


class Kernel:
    """A function that numba compiles, and that other compiled functions call by its name.

    Args:
        function: in Python.
        kept: whether its code is cached on disk, with the code of all that it calls.
        options: of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], *, kept: bool, **options: Any) -> None:
        self.function, self.kept, self._options = function, kept, {**_OPTIONS, **options}
        self._made: Any = None
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @property
    def compiled(self) -> Any:
        """The compiled function. It raises `NotCompiledError` for types that it was not compiled for."""
        if self._made is None:
            from stretto.local_engine.kernels.compiling.code_cache import made  # noqa: PLC0415 - it imports numba

            with _making:
                self._made = self._made or made(self.function, kept=self.kept, **self._options)
        return self._made

    @property
    def _numba_type_(self) -> Any:
        """The attribute that numba reads when a compiled function names this object."""
        return self.compiled._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Run it in Python, for functions that run in Python."""
        return self.function(*arguments)


class _Entry(Kernel):
    """A function that only runs compiled, because it calls functions that Python does not have."""

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


class _Either(Kernel):
    """A function that runs compiled in threads that called ``run_compiled(True)``, and in Python otherwise."""

    _missing_since = -1

    def __call__(self, *arguments: Any) -> Any:
        if self._missing_since < _looked[0] and runs_compiled():
            try:
                return self.compiled(*arguments)
            except NotCompiledError:
                self._missing_since = _looked[0]
        with np.errstate(over="ignore"):  # hashes overflow, as they do in compiled code
            return _as_numba_gives(self.function(*arguments))


def _as_numba_gives(result: Any) -> Any:
    """Replace numpy's numbers by Python's."""
    if isinstance(result, tuple):
        return tuple(map(_as_numba_gives, result))
    return result.item() if isinstance(result, np.generic) else result


def look_again() -> None:
    """Look again for compiled code that was missing before."""
    _looked[0] += 1


def inner(function: Callable[..., Any]) -> Kernel:
    """Decorate a function that only compiled functions call."""
    return Kernel(function, kept=False)


def summing(function: Callable[..., Any]) -> Kernel:
    """Decorate sums over one row, which can be added in any order: the order is the same for all rows."""
    return Kernel(function, kept=False, fastmath={"reassoc", "contract", "nsz", "arcp"})


def entry(function: Callable[..., Any]) -> Kernel:
    """Decorate a function that Python calls: it is compiled once per machine and cached, with all that it calls."""
    return _Entry(function, kept=True)


def python_or_compiled(function: Callable[..., Any]) -> Kernel:
    """Decorate a function that drafters call: like `entry`, but it runs in Python if there is no compiled code."""
    return _Either(function, kept=True)


VARIABLE = "STRETTO_COMPILED"
"""The environment variable that switches compiled code on or off."""


class _Thread(threading.local):
    compiled = False


_thread = _Thread()


def run_compiled(wanted: bool) -> None:
    """Set whether this thread drafts and chooses tokens in compiled code; by default it does not."""
    _thread.compiled = wanted


def runs_compiled() -> bool:
    """Return whether this thread runs compiled code."""
    return _thread.compiled
