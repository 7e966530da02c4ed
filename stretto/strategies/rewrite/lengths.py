"""Target lengths of a text and its pieces, if the task names a length."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretto.language.folding import UNSPACED
from stretto.language.shares import Measure, length_asked
from stretto.strategies.quality.words import words_of

FEWEST = 20  # words of a piece; a shorter one, such as a heading, has little to leave out
SHORTER = 0.9  # of the text; a number of words up to this share asks for a shorter text
OVER = 1.2  # times the requested length
FAR = 0.25  # of the requested length, by which the whole text can miss it
_LEAST_OVER = 10  # words
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Lengths:
    """The length that a task names.

    Attributes:
        share: the share of its length that each piece should keep; ``None`` if the task names no length.
        total: words or characters of the whole; ``None`` if the task names a share.
        measure: the unit of ``total``.
    """

    share: float | None = None
    total: int | None = None
    measure: Measure = "share"

    @classmethod
    def from_task(cls, task: str, text: str) -> Lengths:
        """Return the length that a task asks for: a share, or a total that is divided among pieces by their length."""
        if (found := length_asked(task)) is None:
            return cls()
        length, measure = found
        if measure == "share":
            return cls(length)
        share = length / max(1, _measured(text, measure))
        return cls() if share > SHORTER else cls(share, round(length), measure)  # perhaps it states the present length

    def instruction(self, source: str) -> str:
        """Return the sentence that asks for a piece's length; empty if the task names none or the piece is short."""
        if (words := self._words(source)) is None:
            return ""
        return f"Write about {words} {_unit(source)} in place of the {len(words_of(source))} that the piece has."

    def missed(self, source: str, result: str) -> list[str]:
        """Return by how much a piece stayed too long, as a fault; empty if it did not."""
        words, written = self._words(source), len(words_of(result))
        if words is None or written <= max(OVER * words, words + _LEAST_OVER):
            return []
        return [f"it has {written} {_unit(source)} where about {words} were asked for"]

    def missed_by(self, source: str, result: str) -> str:
        """Return how far the whole text is from the requested length, as a warning; empty if it is close."""
        if self.share is None:
            return ""
        wanted = self.total or round(self.share * _measured(source, self.measure))
        written = _measured(result, self.measure)
        if abs(written - wanted) <= max(FAR * wanted, _LEAST_OVER):
            return ""
        unit = "characters" if self.measure == "characters" else _unit(source)
        return f"The text has {written:,} {unit} where about {wanted:,} were asked for."

    def _words(self, source: str) -> int | None:
        """Return the number of words that a piece should have."""
        words = len(words_of(source))
        return None if self.share is None or words < FEWEST else max(1, round(self.share * words))


def _measured(text: str, measure: Measure) -> int:
    """Count the words of a text, or its characters without whitespace."""
    return len("".join(text.split())) if measure == "characters" else len(words_of(text))


def _unit(text: str) -> str:
    """Return the unit that `words_of` counts in a text: in scripts without spaces, characters."""
    return "characters" if 2 * len(_UNSPACED.findall(text)) > len(words_of(text)) else "words"
