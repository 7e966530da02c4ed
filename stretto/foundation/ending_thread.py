"""A thread that the interpreter ends before it goes: one that is still inside torch would abort the process."""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["EndingThread", "is_exiting"]

_PATIENCE_S = 5.0
_LOOK_S = 0.1  # seconds after which the exit looks whether it was interrupted
_exiting = threading.Event()


class EndingThread(threading.Thread):
    """Ends when it is told to, or when the interpreter exits, which waits for it.

    Args:
        target: what it runs.
        end: tells it to end; called from another thread, at any time, more than once.
        name: of the thread.
    """

    def __init__(self, target: Callable[[], None], end: Callable[[], None], name: str) -> None:
        # A daemon, because the interpreter would wait for any other thread before `_end_all` could end it.
        super().__init__(target=target, name=name, daemon=True)
        self.end = end
        self._left_s = math.inf  # that the exit waits for it

    def give_up(self) -> None:
        """Let the exit wait only some seconds longer: it was told to end and did not."""
        self._left_s = _PATIENCE_S

    def wait_at_exit(self) -> bool:
        """Tell it to end, and wait a moment. Returns False once the exit has waited long enough."""
        self.end()
        self.join(_LOOK_S)  # a signal that comes as a wait begins does not end it
        self._left_s -= _LOOK_S
        return self._left_s > 0

    def run(self) -> None:
        """Run the target."""
        try:
            super().run()
        finally:
            self.end = _ended  # what it refers to is freed now, not when cycles are collected


def is_exiting() -> bool:
    """Whether the interpreter waits for these threads: long work that has not begun would hold it up."""
    return _exiting.is_set()


def _ended() -> None:
    """Nothing is left to end."""


@atexit.register
def _end_all() -> None:
    """End all, also those that one of them still starts: a thread that loads a model starts the engine's."""
    try:
        _exiting.set()
        given_up: set[EndingThread] = set()
        while running := {each for each in threading.enumerate() if isinstance(each, EndingThread)} - given_up:
            given_up |= {thread for thread in running if thread.is_alive() and not thread.wait_at_exit()}
    except BaseException as error:  # noqa: BLE001 - a second Ctrl-C, or what another signal's handler raises
        _leave(error)


def _leave(error: BaseException) -> None:
    """End the process at once, as whoever interrupts its exit wants; going on with threads in torch would abort it."""
    match error:
        case KeyboardInterrupt():
            status = 128 + signal.SIGINT
        case SystemExit(code=int() | None as code):
            status = code or 0
        case SystemExit(code=said):
            status = 1
            print(said, file=sys.stderr)
        case _:
            status = 1
            sys.excepthook(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or none
            stream.flush()
    os._exit(status)
