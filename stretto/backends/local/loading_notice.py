"""Reports on a terminal that a model is still being loaded: a program silent for a minute looks as if it hung."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stretto.local_engine.model.loading.loading_progress import doing

_AFTER_S, _LOOK_S = 2.0, 0.25
_LEAST_NAME = 16  # minimum characters shown of a model's name
_silent = threading.Event()


def silence() -> None:
    """Write nothing more in this process: the program, such as the command line, shows its own progress."""
    _silent.set()


@contextmanager
def loading_reported(model: str, *, wanted: bool) -> Iterator[None]:
    """Report the loading progress on standard error if the body takes long; only on a terminal or in a notebook.

    On a terminal one line is updated; in a notebook each change is a new line.
    """
    in_notebook = "ipykernel" in sys.modules  # a cell shows it
    if not wanted or _silent.is_set() or not (in_notebook or _is_terminal()):
        yield
        return
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(model, ended, in_notebook), name="stretto loading", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def _report(model: str, ended: threading.Event, in_notebook: bool) -> None:
    name = "".join(letter if letter.isprintable() else "?" for letter in model)
    last, patience_s = "", _AFTER_S
    with suppress(OSError, ValueError):
        while not ended.wait(patience_s):
            message = f" is still being loaded: {doing(model) or 'waiting for its files'}."
            room = shutil.get_terminal_size().columns - len(message)
            line = f"stretto: {name if in_notebook else _end_of(name, room)}{message}"
            if line != last:
                shown = line if in_notebook else _over(last, line)
                print(shown, end="\n" if in_notebook else "", file=sys.stderr, flush=True)
            last, patience_s = line, _LOOK_S
        if last and not in_notebook:
            print(file=sys.stderr)


def _end_of(name: str, room: int) -> str:
    """Return the end of a long name, such as a path, so that the progress after it stays visible."""
    most = max(_LEAST_NAME, room - len("stretto: ") - 1)
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _over(last: str, line: str) -> str:
    """Return a line that overwrites the last one, cut to the width of the terminal: a longer one would wrap."""
    width = shutil.get_terminal_size().columns - 1
    return f"\r{line[:width]:{min(len(last), width)}}"
