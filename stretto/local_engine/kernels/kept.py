"""Files of compiled code: numba's own, but one that was cut short is removed and its code compiled again.

A file is cut short where a disk was full or a copy was broken off. numba raises whatever unpickling raises, each time,
and never writes the file anew.
"""

# numba leaves what is called here untyped
# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["keeping"]

_log = logging.getLogger(__name__)


class _Files(IndexDataCacheFile):
    """An index and its data files, read as if a file that cannot be read were not there."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - unpickling half a file raises nearly anything
            _remove(Path(self._index_path), error)
            return {}

    def _load_data(self, name: str) -> Any:
        try:
            return super()._load_data(name)
        except OSError:
            raise
        except Exception as error:
            path = Path(self._data_path(name))
            _remove(path, error)
            raise FileNotFoundError(path) from error  # numba compiles what has no file


class _Cache(FunctionCache):
    """Compiled code of one function. Where it cannot be written, as on a full disk, it is used all the same."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        source = self._impl
        self._cache_file = _Files(self._cache_path, source.filename_base, source.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


def keeping(function: Callable[..., Any], **options: Any) -> Any:
    """Compile like `numba.njit` with ``cache=True``. Raises `RuntimeError` where no folder can be written to."""
    compiled = njit(**options)(function)
    compiled._cache = _Cache(function)
    return compiled


def _remove(path: Path, error: Exception) -> None:
    _log.info("%s cannot be read (%s: %s) and is made anew", path, type(error).__name__, error)
    with suppress(OSError):
        path.unlink()
