"""Finds where a quotation stands in a passage."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["Passage"]

_SAME = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})


class Passage:
    """A text in which quotations are looked up: letter by letter first, then ignoring white space and quotation marks.

    Whole words are preferred to parts of words, and places in ``own`` to those in the neighbouring passages.

    Args:
        text: of the passage, with the edges of its neighbours.
        start: offset of the text in its document.
        own: range of the passage itself in its document; without it, all of the text.
    """

    def __init__(self, text: str, start: int = 0, own: tuple[int, int] | None = None) -> None:
        self.text = text
        self.start = start
        self._own = (own[0] - start, own[1] - start) if own else (0, len(text))
        self._plain: str | None = None
        self._at: list[int] = []

    def find(self, quote: str, taken: Collection[tuple[int, int]] = ()) -> tuple[int, int] | None:
        """The place of ``quote`` in the document, apart from those ``taken`` if it can be; ``None`` if nowhere."""
        place = self._find(quote.strip(), {(start - self.start, end - self.start) for start, end in taken})
        return place and (self.start + place[0], self.start + place[1])

    def _find(self, quote: str, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        if not quote:
            return None
        if found := self._best([(match.start(), match.end()) for match in _places(quote, self.text)], taken):
            return found
        wanted = " ".join(quote.translate(_SAME).split())
        plain = self._plainly()
        spans = ((match.start(), match.end()) for match in _places(wanted, plain))
        return self._best([(self._at[start], self._at[end - 1] + 1) for start, end in spans], taken)

    def _best(self, spans: list[tuple[int, int]], taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """The first in the passage itself that is apart from what is taken, else the first in it, else the first."""
        first, last = self._own
        own = [span for span in spans if span[0] < last and span[1] > first]
        free = (span for span in own if span not in taken and not _overlaps(span, taken))
        return next(free, own[0] if own else spans[0] if spans else None)

    def _plainly(self) -> str:
        """The text with single spaces and plain quotes, and where each of its characters stands."""
        if self._plain is None:
            kept: list[str] = []
            for word in re.finditer(r"\S+", self.text):
                if kept:
                    kept.append(" ")
                    self._at.append(word.start() - 1)
                kept.append(word[0].translate(_SAME))
                self._at.extend(range(word.start(), word.end()))
            self._plain = "".join(kept)
        return self._plain


def _overlaps(span: tuple[int, int], taken: set[tuple[int, int]]) -> bool:
    return any(span[0] < end and span[1] > start for start, end in taken)


def _places(quote: str, text: str) -> list[re.Match[str]]:
    """Where a quotation stands, as whole words; if nowhere so, also within words, unless it is a single character."""
    exact = re.escape(quote)
    whole = list(re.finditer(rf"(?<!\w){exact}(?!\w)", text))
    return whole or (list(re.finditer(exact, text)) if len(quote) > 1 else [])
