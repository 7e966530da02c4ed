"""Stop texts in a stream of pieces, including those that span pieces."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter


class StopTexts:
    """Finds the first stop text in a stream, and withholds what may be the beginning of one.

    Attributes:
        found: the text that ended the stream.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(text for text in texts if text)
        self._buffer = ""
        self.found: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text that can be emitted, and whether a stop text was found, which ends the stream."""
        if not self._texts:
            return text, False
        buffered = self._buffer + text
        found = [(place, stop) for stop in self._texts if (place := buffered.find(stop)) >= 0]
        if found:
            self._buffer = ""
            place, self.found = min(found, key=itemgetter(0))
            return buffered[:place], True
        keep = max(_overlap(buffered, stop) for stop in self._texts)
        self._buffer = buffered[len(buffered) - keep :]
        return buffered[: len(buffered) - keep], False

    def flush(self) -> str:
        """Return the withheld text, which turned out not to be a stop text."""
        buffered, self._buffer = self._buffer, ""
        return buffered


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of ``text`` that is a prefix of ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
