"""Text as it comes from a server, made into text that can be shown."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.stop_texts import StopTexts

MOST_TEXT = 8 * 2**20  # characters of one generation, thinking included; no model writes more


class IncomingText:
    """Joins what was split, ends at a stop text and at a bound.

    JSON can hold half of a character outside the basic plane (a surrogate): two halves in a row become the
    character, also over two pieces; a half by itself becomes U+FFFD. Stop texts are cut here even where the provider
    is sent them too: not every model takes them, and not every server heeds them.

    Attributes:
        ended: "stop" once a stop text was found, "length" beyond the bound.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.ended: str | None = None
        self._stops = StopTexts(stop)
        self._half = ""
        self._left = MOST_TEXT

    def push(self, text: str) -> str:
        """Take a piece and give the text that is certain."""
        whole = text if text.isascii() and not self._half else self._join(text)
        self.count(whole)
        certain, found = self._stops.push(whole)
        if found:
            self.ended = "stop"
        return certain

    def count(self, text: str) -> None:
        """Count text that is not shown, thinking for instance."""
        self._left -= len(text)
        if self._left < 0 and self.ended is None:
            self.ended = "length"

    def flush(self) -> str:
        """Give what was withheld."""
        if self.ended == "stop":
            return ""
        last = "\ufffd" if self._half else ""
        self._half = ""
        certain, _ = self._stops.push(last)
        return certain + self._stops.flush()

    def _join(self, text: str) -> str:
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return mended(text)


def mended(text: str) -> str:
    """Join surrogates that belong together, and replace the others."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
