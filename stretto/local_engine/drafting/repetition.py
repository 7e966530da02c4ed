"""Notices cheaply that a text begins to repeat itself."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.grams import SIZE
from stretto.local_engine.drafting.sources.texts import Texts

__all__ = ["RepetitionWatch", "TextsWatch"]

_BACK = 32


class RepetitionWatch:
    """Remembers where each n-gram of a text ended last, and so finds matches of at least n tokens and their length.

    It costs one look into a dictionary for each token. A `SuffixAutomaton` finds shorter matches too.

    Args:
        size: tokens of an n-gram.
    """

    def __init__(self, size: int = 4) -> None:
        self._size = size
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = size - 1
        self._followed = 0  # where the match ended when it occurred before
        self._length = 0

    def match(self, text: Sequence[int]) -> int:
        """How many tokens at the end of the text followed each other before; 0 where they are fewer than an n-gram.

        The text is the one given last time, or longer. Of several earlier occurrences the latest counts. More than 32
        tokens are counted only if the match grew token by token.
        """
        size, ends = self._size, self._ends
        for end in range(self._read + 1, len(text) + 1):
            gram = tuple(text[end - size : end])
            found = ends.get(gram)
            ends[gram] = end
            if found is None:
                self._length = 0
            else:
                follows = self._length and found == self._followed + 1
                self._length = self._length + 1 if follows else _common(text, found - size, end - size) + size
                self._followed = found
        self._read = max(self._read, len(text))
        return self._length


def _common(text: Sequence[int], one: int, other: int) -> int:
    """How many tokens before two positions are the same, ``other`` being the later position."""
    most = min(one, _BACK)
    return next((length for length in range(most) if text[one - length - 1] != text[other - length - 1]), most)


class TextsWatch:
    """Counts how many tokens at the end of a text occur, a few at a time, in other texts.

    Args:
        others: the other texts.
        reader: number of the text's own `DraftText` in these, whose words do not count.
    """

    def __init__(self, others: Sequence[Texts | FileTexts], reader: int) -> None:
        self._others = others
        self._reader = reader
        self._read = SIZE - 1
        self._length = 0

    def match(self, text: Sequence[int], start: int) -> int:
        """How many tokens at the end occur in the others, each with those before it; 0 where they are very few.

        The text is the one given last time, or longer; what stands before ``start`` is not looked at.
        """
        others, reader = self._others, self._reader
        for end in range(max(self._read + 1, start), len(text) + 1):
            if any(texts.grams.has(text, end, reader) for texts in others):
                self._length = self._length + 1 if self._length else SIZE
            else:
                self._length = 0
        self._read = max(self._read, len(text))
        return self._length
