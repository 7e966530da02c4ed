"""Finds the heading of another part, or of the same part once more, at the beginning of a later line of a part."""

from __future__ import annotations

from collections.abc import Iterable

from stretto.strategies.quality.stream_filter import LINE
from stretto.strategies.quality.words import words_of


class HeadingSearch:
    """Looks for lines of a part that consist of a title, of a number and a title, or of "point" and a number.

    The first line is left alone: a label there is taken off elsewhere.
    """

    def __init__(self, titles: Iterable[str], labels: Iterable[str] = ("point",)) -> None:
        self._titles = {tuple(words) for title in titles if (words := words_of(title))}
        self._labels = frozenset(labels)
        self._line: list[str] | None = (
            None  # the words of a line so far; ``None`` in the first line and in later sentences
        )
        self._begun = False

    def word(self, word: str, *, start: int) -> int | None:
        """Take a word; return how many of the last ones may be a heading."""
        if start == LINE or (start and not self._numbered):
            self._line = [] if start == LINE and self._begun else None
        self._begun = True
        if self._line is None:
            return 0
        self._line.append(word)
        return len(self._line) if self._fits(self._line) else 0

    def sentence(self) -> int | None:
        """A sentence or line has ended; ``None`` if it is a heading."""
        line = self._line
        if self._numbered:  # "2." before a title
            return 1
        self._line = None
        if not line:
            return 0
        named = len(line) == 2 and line[0] in self._labels and line[1].isdigit()
        return None if named or tuple(self._bare(line)) in self._titles else 0

    def may_begin(self, fragment: str, *, start: int) -> bool:
        """Whether a word that begins like this may go on with a heading."""
        line = [] if start == LINE and self._begun else self._line if not start or self._numbered else None
        if line is None:
            return False
        if fragment.isdigit() or (not line and any(label.startswith(fragment) for label in self._labels)):
            return len(line) < 2
        bare = tuple(self._bare(line)) if line else ()
        return any(
            title[: len(bare)] == bare and len(title) > len(bare) and title[len(bare)].startswith(fragment)
            for title in self._titles
        )

    @property
    def _numbered(self) -> bool:
        return bool(self._line) and len(self._line or ()) == 1 and (self._line or [""])[0].isdigit()

    def _fits(self, line: list[str]) -> bool:
        bare = tuple(self._bare(line))
        return any(title[: len(bare)] == bare for title in self._titles)

    def _bare(self, line: list[str]) -> list[str]:
        rest = line[1:] if line[0] in self._labels else line
        return rest[1:] if rest and rest[0].isdigit() else rest
