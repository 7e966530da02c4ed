r"""Surrogates: halves of a character that cannot be encoded. Pairs become their character, lone ones U+FFFD.

They come from JSON escapes ("\ud83d") that a server split, and from file names that are not UTF-8.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_OPEN = re.compile("[\ud800-\udbff]$")


def fix_surrogates(text: str) -> str:
    """Replace the surrogates in a text."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Mending:
    """Does the same for a text in pieces, which can split a pair."""

    def __init__(self) -> None:
        self._open = ""

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that is final."""
        if piece.isascii() and not self._open:
            return piece
        piece = self._open + piece
        self._open = piece[-1:] if _OPEN.search(piece) else ""
        return fix_surrogates(piece[: len(piece) - len(self._open)])

    def finish(self) -> str:
        """Return the withheld text."""
        rest, self._open = self._open, ""
        return fix_surrogates(rest)
