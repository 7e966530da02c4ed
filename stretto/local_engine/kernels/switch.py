"""Whether this thread runs compiled code."""

from __future__ import annotations

import threading

__all__ = ["VARIABLE", "run_compiled", "runs_compiled"]

VARIABLE = "STRETTO_COMPILED"
"""The environment variable that switches compiled code on or off."""


class _Thread(threading.local):
    compiled = False


_thread = _Thread()


def run_compiled(wanted: bool) -> None:
    """Set whether this thread drafts and chooses tokens in compiled code; by default it does not."""
    _thread.compiled = wanted


def runs_compiled() -> bool:
    """Whether this thread runs compiled code."""
    return _thread.compiled
