"""How long the pieces of a text are to become whose task names a length, and which of them stayed too long."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretto.language.folding import UNSPACED
from stretto.language.shares import length_asked
from stretto.strategies.quality.words import words_of

__all__ = ["Lengths"]

FEWEST = 20  # words of a piece; a shorter one, a heading for instance, has little to leave out
SHORTER = 0.9  # of the text, that a number of words has to be to ask for fewer
OVER = 1.2  # times what was asked for
_LEAST_OVER = 10  # words
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Lengths:
    """``share``: what each piece is to keep of its length; ``None`` where the task names no length."""

    share: float | None = None

    @classmethod
    def asked(cls, task: str, text: str) -> Lengths:
        """What a task asks for: a share, or a total that all pieces share by their length."""
        if (found := length_asked(task)) is None:
            return cls()
        length, measure = found
        if measure != "share":
            length /= max(1, len(words_of(text)) if measure == "words" else len("".join(text.split())))
            if length > SHORTER:  # the length that the text has, perhaps
                return cls()
        return cls(length)

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

    def _words(self, source: str) -> int | None:
        """The words that a piece is to have."""
        words = len(words_of(source))
        return None if self.share is None or words < FEWEST else max(1, round(self.share * words))


def _unit(text: str) -> str:
    """What `words_of` counts in a text: each character of a script without blanks."""
    return "characters" if 2 * len(_UNSPACED.findall(text)) > len(words_of(text)) else "words"
