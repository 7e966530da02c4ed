r"""Surrogates: halves of a character that no encoding takes. Pairs become their character, single ones U+FFFD.

They come from escapes of JSON ("\ud83d") that a server cut in two, and from names of files that are not UTF-8.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_OPEN = re.compile("[\ud800-\udbff]$")


def fix_surrogates(text: str) -> str:
    """The text without surrogates."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Mending:
    """The same for a text that comes in pieces; a pair may be cut in two."""

    def __init__(self) -> None:
        self._open = ""

    def feed(self, piece: str) -> str:
        """Take a piece, give back what is certain."""
        if piece.isascii() and not self._open:
            return piece
        piece = self._open + piece
        self._open = piece[-1:] if _OPEN.search(piece) else ""
        return fix_surrogates(piece[: len(piece) - len(self._open)])

    def finish(self) -> str:
        """Give back what was held."""
        rest, self._open = self._open, ""
        return fix_surrogates(rest)
