"""Functions compiled by numba, with their code cached in `stretto.local_engine.kernels.compiling.store`.

numba's cache is not used: it records neither that code has run on this machine nor that a file is complete.
"""

# numba leaves what is called here untyped
# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from stretto.local_engine.kernels.compiling.jit import NotCompiledError
from stretto.local_engine.kernels.compiling.store import Store, stores


class _Build:
    """State of the compiler's process: its store, and the names of the code that it compiled or loaded."""

    store: Store | None = None
    part = ""
    names: set[str]


def build_in(store: Store, part: str) -> set[str]:
    """Let this process compile a part.

    Returns:
        the names of its code; the set grows while the process compiles.
    """
    _Build.store, _Build.part, _Build.names = store, part, set()
    return _Build.names


def made(function: Callable[..., Any], *, kept: bool, **options: Any) -> Any:
    """Compile like `numba.njit`. With ``kept``, code is loaded, and only compiled after a call of `build_in`."""
    compiled = njit(**options)(function)
    if kept:
        compiled._cache = _Kept(function)
    return compiled


class _Kept(_Cache):
    """Compiled code of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{'.'.join(function.__module__.split('.')[-2:])}.{function.__name__}"

    @property
    def cache_path(self) -> str:
        """Empty: numba does not use it here."""
        return ""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature. Raises `NotCompiledError` unless this process compiles."""
        target_context.refresh()
        name, target = self._file(sig), target_context.codegen().magic_tuple()
        for store in stores() if _Build.store is None else [_Build.store]:
            if (data := store.read(name)) is None:
                continue
            try:
                made_for, payload = pickle.loads(data)  # noqa: S301 - our own; the folder is as trusted as the source's
                if made_for == target:
                    if _Build.store is not None:
                        _Build.names.add(name)
                    return CompileResult._rebuild(target_context, *payload)
            except Exception as error:
                store.forget(name)
                raise NotCompiledError(f"{name} cannot be loaded: {error}") from error
        if _Build.store is None:
            raise NotCompiledError(f"{self._name} was not compiled for {sig}")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code for a signature. Raises OSError."""
        if _Build.store is not None:
            _Build.store.write(self._file(sig), dumps((data.codegen.magic_tuple(), data._reduce())))
            _Build.names.add(self._file(sig))
            _Build.store.forget_tries(_Build.part)  # compiling made progress

    def enable(self) -> None:
        """The cache is always enabled."""

    def disable(self) -> None:
        """The cache cannot be disabled."""

    def flush(self) -> None:
        """Do nothing: code is written at once."""

    def _file(self, sig: Any) -> str:
        return f"{self._name}-{hashlib.sha256(str(sig).encode()).hexdigest()[:20]}.code"
