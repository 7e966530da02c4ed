"""Says on a terminal that a model is still being loaded: a program that is silent for a minute looks as if it hung."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stretto.local_engine.model.loading.loading_progress import doing

__all__ = ["silence", "told_of_loading"]

_AFTER_S = 2.0
_silent = threading.Event()


def silence() -> None:
    """Say nothing in this process any more: it shows by itself what it waits for, as the command line does."""
    _silent.set()


@contextmanager
def told_of_loading(model: str, *, wanted: bool) -> Iterator[None]:
    """Write one line to standard error if what is inside takes long; only on a terminal and in a notebook."""
    if not wanted or _silent.is_set() or not _is_terminal():
        yield
        return
    timer = threading.Timer(_AFTER_S, _say, (model,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _is_terminal() -> bool:
    if "ipykernel" in sys.modules:  # a cell shows it
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def _say(model: str) -> None:
    name = "".join(letter if letter.isprintable() else "?" for letter in model)
    with suppress(OSError, ValueError):
        print(f"stretto: {name} is still being loaded: {doing(model) or 'waiting for its files'}.", file=sys.stderr)
