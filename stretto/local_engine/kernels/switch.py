"""Whether code is compiled for this processor: what the environment says, and what runs in this thread."""

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
    """What the environment says about it; ``None`` where it says nothing. Raises `SettingsError`."""
    said = os.environ.get(VARIABLE, "").strip().lower()
    if not said:
        return None
    if said not in _WORDS:
        raise SettingsError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be used. Set it to 1 or 0.")
    return _WORDS[said]


def run_compiled(wanted: bool) -> None:
    """Say whether this thread drafts and chooses tokens in compiled code; a thread that says nothing does not."""
    _thread.compiled = wanted


def runs_compiled() -> bool:
    """Whether this thread does."""
    return _thread.compiled
