"""Limits on reading: bounds for each file, and deadline and cancellation for all of them together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stretto.values.errors import DeadlineExceededError, DocumentError, StrettoError

_START_S = 60.0  # for the start of a process, which does not count towards the time of its file


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits on reading, set by the settings of the same names.

    Attributes:
        reading_s: seconds that one file may take.
        reading_memory_mb: megabytes of memory that parsing one PDF, DOCX or HTML file may take; not enforced on
            Windows.
        follow_links: follow links that lead out of the given folder, and linked folders.
    """

    reading_s: float = 120.0
    reading_memory_mb: int = 2048
    follow_links: bool = False


class ReadingTime:
    """The time left for reading. One thread reads; any thread can cancel.

    Attributes:
        limits: for each file.
        deadline_s: seconds from now for all files together.
    """

    def __init__(self, limits: ReadingLimits | None = None, deadline_s: float | None = None) -> None:
        self.limits = limits or ReadingLimits()
        self.deadline_s = deadline_s
        self._until = None if deadline_s is None else time.monotonic() + deadline_s
        self._file_until: float | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._on_cancel: Callable[[], None] | None = None

    @contextmanager
    def one_file(self) -> Iterator[None]:
        """Start the time of one file."""
        self._file_until = time.monotonic() + self.limits.reading_s
        try:
            yield
        finally:
            self._file_until = None

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """Call ``end`` from another thread when the time is up or the reading is cancelled."""
        timer = threading.Timer(max(0.0, self.left_s()), end)
        timer.daemon = True
        with self._lock:
            self._on_cancel = end
            cancelled = self._cancelled
        try:
            timer.start()
            if cancelled:
                end()
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._on_cancel = None

    def left_s(self) -> float:
        """Return the seconds left for what is being read."""
        ends = [each for each in (self._until, self._file_until) if each is not None]
        return min(ends) - time.monotonic() if ends else max(_START_S, self.limits.reading_s)

    def check(self) -> None:
        """Raise the error if time is up: `DocumentError` for one file, `DeadlineExceededError` for all."""
        if self._cancelled:
            raise StrettoError("The reading of documents was cancelled.")
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            raise self.passed()
        if self._file_until is not None and now >= self._file_until:
            raise DocumentError(
                f"reading it took longer than {self.limits.reading_s:g} s; allow more with the setting reading_s"
            )

    def passed(self) -> DeadlineExceededError:
        """Return the error for a deadline that has passed."""
        return DeadlineExceededError(
            f"The deadline passed after {self.deadline_s:g} s, while documents were being read. "
            "Allow more with deadline_s, or name fewer documents."
        )

    def cancel(self) -> None:
        """End the reading, from any thread."""
        with self._lock:
            self._cancelled = True
            end = self._on_cancel
        if end is not None:
            end()
