"""Notices that the process was forked: threads, event loops and connections do not live on in a child."""

from __future__ import annotations

import os


class Fork:
    """Remembers the process of the first use.

    A client that was made before a fork and first used after it is fine.
    """

    def __init__(self) -> None:
        self._process: int | None = None

    def happened(self) -> bool:
        """Whether this process is another one than at the first call."""
        here = os.getpid()
        if self._process is None:
            self._process = here
        return self._process != here
