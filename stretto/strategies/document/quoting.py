"""Where a quotation stands in a passage, and fences around text that must not be read as instructions."""

from __future__ import annotations

import re
from hashlib import sha256

__all__ = ["Passage", "fence_for", "one_line"]

_SAME = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})
_SHORTEST = 2  # characters a quotation must have to be told from chance
_LONGEST_TITLE = 120


class Passage:
    """A text that quotations are looked up in: letter by letter, else whatever the white space and quotation marks.

    Args:
        text: of the passage.
        start: offset of the text in its document.
    """

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.start = start
        self._plain: str | None = None
        self._at: list[int] = []

    def find(self, quote: str) -> tuple[int, int] | None:
        """The first place of ``quote`` in the document; ``None`` if it does not stand here."""
        place = self._find(quote)
        return place and (self.start + place[0], self.start + place[1])

    def _find(self, quote: str) -> tuple[int, int] | None:
        quote = quote.strip()
        if len(quote) < _SHORTEST and quote != self.text.strip():
            return None
        start = self.text.find(quote)
        if start >= 0:
            return start, start + len(quote)
        wanted = " ".join(quote.translate(_SAME).split())
        plain = self._plainly()
        at = plain.find(wanted)
        if not wanted or at < 0:
            return None
        return self._at[at], self._at[at + len(wanted) - 1] + 1

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


def fence_for(*texts: str) -> str:
    """A line to put around these texts that stands in none of them; the same for the same texts."""
    digest = sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "replace"))
    number = int.from_bytes(digest.digest()[:5])
    while any((fence := f"=== {number:x} ===") in text for text in texts):
        number += 1
    return fence


def one_line(title: str, number: int) -> str:
    """A title as a prompt and a citation show it: one line, without brackets, never empty."""
    line = " ".join(re.sub(r"[\[\]<>\"`=]", " ", title).split())
    return line[:_LONGEST_TITLE].rstrip() or f"document {number + 1}"
