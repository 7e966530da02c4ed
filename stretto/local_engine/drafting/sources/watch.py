"""Notices cheaply that a text says what other texts say."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.grams import SIZE
from stretto.local_engine.drafting.sources.texts import Texts

__all__ = ["TextsWatch"]


class TextsWatch:
    """Counts how many tokens at the end of a text occur, a few at a time, in other texts.

    Args:
        others: the other texts.
        reader: number of the text's own `Writing` in these, whose words do not count.
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
