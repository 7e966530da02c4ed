"""Makes passages smaller where a text is dense, because a reader misses more of it there."""

from __future__ import annotations

import re

__all__ = ["share_of"]

_WORD = re.compile(r"\S+")
_LOOKED_AT = 400  # words of a paragraph
_FEWEST = 12  # words from which a paragraph can be judged
_DENSE = 0.3  # share of words with digits from which it counts as dense
_SMALLER = 0.5


def share_of(paragraph: str) -> float:
    """The share of the usual size that a passage with this paragraph may have: half if it is full of figures.

    It depends on the text alone, not on the question: the next question about the document gets the same passages.
    """
    words = _WORD.findall(paragraph, 0, _LOOKED_AT * 12)[:_LOOKED_AT]
    if len(words) < _FEWEST:
        return 1.0
    figures = sum(any(character.isdigit() for character in word) for word in words)
    return _SMALLER if figures >= _DENSE * len(words) else 1.0
