"""How long a text is to become whose task names a length, each of its pieces and the whole."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretto.language.folding import UNSPACED
from stretto.language.shares import Measure, length_asked
from stretto.strategies.quality.words import words_of

FEWEST = 20  # words of a piece; a shorter one, a heading for instance, has little to leave out
SHORTER = 0.9  # of the text, that a number of words has to be to ask for fewer
OVER = 1.2  # times what was asked for
FAR = 0.25  # of what was asked for, by which the whole text may miss it
_LEAST_OVER = 10  # words
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Lengths:
    """The length that a task names.

    Attributes:
        share: what each piece is to keep of its length; ``None`` where the task names no length.
        total: words or characters of the whole; ``None`` where the task names a share.
        measure: in what the whole is measured.
    """

    share: float | None = None
    total: int | None = None
    measure: Measure = "share"

    @classmethod
    def asked(cls, task: str, text: str) -> Lengths:
        """What a task asks for: a share, or a total that all pieces share by their length."""
        if (found := length_asked(task)) is None:
            return cls()
        length, measure = found
        if measure == "share":
            return cls(length)
        share = length / max(1, _measured(text, measure))
        return cls() if share > SHORTER else cls(share, round(length), measure)  # the length that it has, perhaps

    def told(self, source: str) -> str:
        """The sentence that asks for a piece's length; empty where the task names none, or the piece is short."""
        if (words := self._words(source)) is None:
            return ""
        return f"Write about {words} {_unit(source)} in place of the {len(words_of(source))} that the piece has."

    def missed(self, source: str, result: str) -> list[str]:
        """That a piece stayed too long, in its figures; empty where it did not."""
        words, written = self._words(source), len(words_of(result))
        if words is None or written <= max(OVER * words, words + _LEAST_OVER):
            return []
        return [f"it has {written} {_unit(source)} where about {words} were asked for"]

    def missed_by(self, source: str, result: str) -> str:
        """That a whole text is far from the length that was asked for, in its figures; empty where it is not."""
        if self.share is None:
            return ""
        asked = self.total or round(self.share * _measured(source, self.measure))
        written = _measured(result, self.measure)
        if abs(written - asked) <= max(FAR * asked, _LEAST_OVER):
            return ""
        unit = "characters" if self.measure == "characters" else _unit(source)
        return f"The text has {written:,} {unit} where about {asked:,} were asked for."

    def _words(self, source: str) -> int | None:
        """The words that a piece is to have."""
        words = len(words_of(source))
        return None if self.share is None or words < FEWEST else max(1, round(self.share * words))


def _measured(text: str, measure: Measure) -> int:
    """Words of a text, or its characters without blanks."""
    return len("".join(text.split())) if measure == "characters" else len(words_of(text))


def _unit(text: str) -> str:
    """What `words_of` counts in a text: each character of a script without blanks."""
    return "characters" if 2 * len(_UNSPACED.findall(text)) > len(words_of(text)) else "words"
