"""A thread that the interpreter ends before it goes: one that is still inside torch would abort the process."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

__all__ = ["EndingThread"]


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

    def run(self) -> None:
        """Run the target."""
        try:
            super().run()
        finally:
            self.end = _ended  # what it refers to is freed now, not when cycles are collected


def _ended() -> None:
    """Nothing is left to end."""


@atexit.register
def _end_all() -> None:
    """End all, also those that one of them still starts: a thread that loads a model starts the engine's."""
    while running := [each for each in threading.enumerate() if isinstance(each, EndingThread) and each.is_alive()]:
        for thread in running:
            thread.end()
            thread.join()
