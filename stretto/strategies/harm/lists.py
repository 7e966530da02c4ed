"""Finds a numbered list inside a part that is to be one thing."""

from __future__ import annotations

from stretto.strategies.harm.screen import LINE


class ListSearch:
    """Looks for a line that begins with a number and a full stop, but for the first line, where it may be a label."""

    def __init__(self) -> None:
        self._begun = False
        self._number = False  # all of the line so far

    def word(self, word: str, *, start: int) -> int | None:
        """Take a word; return 1 while it may be the number of an entry."""
        self._number = start == LINE and self._begun and word.isdigit() and len(word) < 3
        self._begun = True
        return int(self._number)

    def sentence(self) -> int | None:
        """A sentence or line has ended; ``None`` if it was a number alone."""
        return None if self._number else 0

    def may_begin(self, fragment: str, *, start: int) -> bool:
        """Whether a word that begins like this may be such a number."""
        return start == LINE and self._begun and fragment.isdigit() and len(fragment) < 3
