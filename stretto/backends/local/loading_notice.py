"""Says on a terminal that a model is still being loaded: a program that is silent for a minute looks as if it hung."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stretto.local_engine.model.loading.loading_progress import doing

__all__ = ["silence", "told_of_loading"]

_AFTER_S, _LOOK_S = 2.0, 0.25
_LEAST_NAME = 16  # characters of a model's name
_silent = threading.Event()


def silence() -> None:
    """Say nothing in this process any more: it shows by itself what it waits for, as the command line does."""
    _silent.set()


@contextmanager
def told_of_loading(model: str, *, wanted: bool) -> Iterator[None]:
    """Write to standard error what is done if what is inside takes long; only on a terminal and in a notebook.

    On a terminal, one line changes with it; in a notebook there is a line for each change.
    """
    in_notebook = "ipykernel" in sys.modules  # a cell shows it
    if not wanted or _silent.is_set() or not (in_notebook or _is_terminal()):
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(model, ended, in_notebook), name="stretto tells", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def _tell(model: str, ended: threading.Event, in_notebook: bool) -> None:
    name = "".join(letter if letter.isprintable() else "?" for letter in model)
    last, patience_s = "", _AFTER_S
    with suppress(OSError, ValueError):
        while not ended.wait(patience_s):
            said = f" is still being loaded: {doing(model) or 'waiting for its files'}."
            room = shutil.get_terminal_size().columns - len(said)
            line = f"stretto: {name if in_notebook else _end_of(name, room)}{said}"
            if line != last:
                shown = line if in_notebook else _over(last, line)
                print(shown, end="\n" if in_notebook else "", file=sys.stderr, flush=True)
            last, patience_s = line, _LOOK_S
        if last and not in_notebook:
            print(file=sys.stderr)


def _end_of(name: str, room: int) -> str:
    """The end of a long name, such as a path: what is done stands behind it and is to be seen."""
    most = max(_LEAST_NAME, room - len("stretto: ") - 1)
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _over(last: str, line: str) -> str:
    """A line in place of the last one, in the width of the terminal: a longer one would stay where it is."""
    width = shutil.get_terminal_size().columns - 1
    return f"\r{line[:width]:{min(len(last), width)}}"
