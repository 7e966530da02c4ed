"""Whether compiled code is wanted, by the environment, and whether this thread runs it."""

from __future__ import annotations

import os
import threading

from stretto.errors import SettingsError

__all__ = ["compiling", "run_compiled", "runs_compiled"]

VARIABLE = "STRETTO_COMPILED"
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class _Thread(threading.local):
    compiled = False


_thread = _Thread()


def compiling() -> bool | None:
    """Read ``STRETTO_COMPILED``; ``None`` if it is not set. Raises `SettingsError`."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if not value:
        return None
    if value not in _WORDS:
        raise SettingsError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be used. Set it to 1 or 0.")
    return _WORDS[value]


def run_compiled(wanted: bool) -> None:
    """Set whether this thread drafts and chooses tokens in compiled code; by default it does not."""
    _thread.compiled = wanted


def runs_compiled() -> bool:
    """Whether this thread runs compiled code."""
    return _thread.compiled
