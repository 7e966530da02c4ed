"""Judge the titles of an outline one by one as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stretto.language.echoes import echoes, refuses
from stretto.strategies.quality.phrases import Phrases
from stretto.strategies.quality.words import words_of

SENTENCE = 14  # words; a title has fewer
ENDED = 9  # words; a title with a full stop has fewer


@dataclass
class Titles:
    """The titles of one outline.

    Attributes:
        question: what the outline answers; its words are never an echo of the prompt.
        prompt: the lines of the prompt that asked for the outline.
        good: titles that were kept.
        wrong: the others, each with what is wrong with it.
    """

    question: str
    prompt: Phrases
    good: list[str] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def take(self, title: str) -> str | None:
        """Take a title; return what is wrong with it, as half a sentence, or ``None``."""
        fault = next(self._faults(title), None)
        if fault is None:
            self.good.append(title)
        else:
            self.wrong.append((title, fault))
        return fault

    @property
    def hopeless(self) -> bool:
        """Whether too many titles are wrong to build an answer from the others."""
        if not self.good:
            return bool(self.wrong)
        return len(self.wrong) > 1 and len(self.wrong) * 3 >= len(self.good) + len(self.wrong)

    def _faults(self, title: str) -> Iterator[str]:
        words, question = words_of(title), words_of(self.question)
        if is_placeholder(words):
            yield "a title is only a placeholder"
        own = f" {' '.join(words)} " in f" {' '.join(question)} "
        if not own and self.prompt.hold(words):
            yield "a title repeats words of the prompt"
        if refuses(title):
            yield "the model refused in place of a title"
        spaced = sum(len(word) > 1 for word in words)
        if spaced > SENTENCE or (spaced > ENDED and title.rstrip().endswith((".", "!"))):
            yield "a title is a whole sentence"
        if words == question and len(words) > 2:
            yield "a title repeats the question"
        if words in map(words_of, self.good):
            yield "a title says the same as an earlier one"


def is_placeholder(words: Sequence[str]) -> bool:
    """Return whether a title says only that it is one: "Title of the first point", "Point 3", "..."."""
    known = echoes()
    empty = [word for word in words if word in known.labels or word in known.ordinals or word.isdigit()]
    return len(empty) == len(words) and (not words or any(word in known.labels for word in words))
