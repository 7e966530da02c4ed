"""Makes a server's text fit to be shown: whole characters, up to a stop text or a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stretto.foundation.stop_texts import StopTexts
from stretto.foundation.surrogates import Mending

MOST_TEXT = 8 * 2**20  # characters of one generation, thinking included; no model writes more


class IncomingText:
    """A text buffer that joins split characters, and ends at a stop text or a limit.

    JSON can contain half of a character outside the basic plane (a surrogate). Two consecutive halves become the
    character, even across pieces; a lone half becomes U+FFFD. Stop texts are cut here even if the provider
    gets them too: not every model accepts them, and not every server obeys them.

    Attributes:
        ended: "stop" once a stop text was found, "length" beyond the limit.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.ended: Literal["stop", "length"] | None = None
        self._stops = StopTexts(stop)
        self._mending = Mending()
        self._left = MOST_TEXT

    @property
    def stopped_by(self) -> str | None:
        """The stop text that was found."""
        return self._stops.found

    def push(self, text: str) -> str:
        """Add a piece and return the text that is certain; `count` it as well."""
        certain, found = self._stops.push(self._mending.feed(text))
        if found:
            self.ended = "stop"
        return certain

    def count(self, text: str) -> None:
        """Count text that has arrived, including thinking that is not shown."""
        self._left -= len(text)
        if self._left < 0 and self.ended is None:
            self.ended = "length"

    def flush(self) -> str:
        """Return what was withheld."""
        if self.ended == "stop":
            return ""
        certain, _ = self._stops.push(self._mending.finish())
        return certain + self._stops.flush()
