"""Judges the titles of an outline, one by one as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from stretto.language.echoes import echoes, refuses
from stretto.language.telling import language_of, languages
from stretto.strategies.harm.phrases import Phrases
from stretto.strategies.harm.words import words_of

SENTENCE = 14  # words; a title has fewer
ENDED = 9  # words; a title with a full stop has fewer
ALIKE = 0.6  # share of their content words above which two titles say the same
_SAID_BEFORE = "a title says the same as an earlier one"
_STEM = 6  # letters of a word that are compared


@dataclass
class Titles:
    """The titles of one outline.

    Attributes:
        question: what the outline answers; its own words are never an echo of the prompt.
        prompt: the lines of the prompt that asked for the outline.
        strict: for weak models. The language of the titles is checked as well, and titles said again do not speak
            against the others: such a model repeats itself where it has no more to say.
        good: sections and titles that were kept.
        wrong: why the others were not.
        repeated: how many of those say the same as an earlier one.
        earlier: how many of the good ones are of an outline before this one, which may say them again.
    """

    question: str
    prompt: Phrases
    strict: bool = False
    good: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    repeated: int = 0
    earlier: int = 0

    def take(self, title: str, section: str = "") -> str | None:
        """Take a title; return what is wrong with it, as half a sentence, or ``None``."""
        fault = next(self._faults(title, section), None)
        if fault is None:
            self.good.append((section, title))
        elif fault != _SAID_BEFORE or not any(says_the_same(title, own) for _, own in self.good[: self.earlier]):
            self.wrong.append(fault)
            self.repeated += fault == _SAID_BEFORE
        return fault

    def once_more(self) -> Titles:
        """The same for another outline, whose titles join the good ones of this."""
        return replace(self, wrong=[], repeated=0, earlier=len(self.good))

    @property
    def hopeless(self) -> bool:
        """Whether so many titles are wrong that no answer should be made of the others."""
        if not self.good and not self.strict:
            return bool(self.wrong)  # a weak model often copies a title of an example, and goes on with its own
        wrong = len(self.wrong) - (self.repeated if self.strict else 0)
        return wrong > 1 and wrong * 3 >= len(self.good) + len(self.wrong)

    @property
    def exhausted(self) -> bool:
        """Whether a weak model has begun to repeat itself: it says nothing new from here on."""
        return self.strict and self.repeated > 0

    def _faults(self, title: str, section: str) -> Iterator[str]:
        words, asked = words_of(title), words_of(self.question)
        if is_placeholder(words):
            yield "a placeholder stands in place of a title"
        own = f" {' '.join(words)} " in f" {' '.join(asked)} "
        if not own and self.prompt.hold(words):
            yield "a title repeats words of the prompt"
        if refuses(title):
            yield "the model refused in place of a title"
        spaced = sum(len(word) > 1 for word in words)
        if spaced > SENTENCE or (spaced > ENDED and title.rstrip().endswith((".", "!"))):
            yield "a sentence stands in place of a title"
        if words == asked and len(words) > 2:
            yield "a title repeats the question"
        counted = "" if section else self.question
        if any(says_the_same(title, other, counted) for place, other in self.good if place == section):
            yield _SAID_BEFORE
        if self.strict and self._in_another_language(title):
            yield "a title is in another language than the question"

    def _in_another_language(self, title: str) -> bool:
        """Whether the titles so far have function words of another language and none of the question's."""
        own = language_of(self.question)
        small = languages().small
        if own not in small:
            return language_of(title) in small and len(title) > 3
        for text in (title, " ".join([*(good for _, good in self.good), title])):
            words = set(words_of(text))  # one word said in each title, such as "no", stands in several languages
            counts = {name: len(words & known) for name, known in small.items()}
            if counts[own] == 0 and max(counts.values()) > 1:
                return True
        return False


def is_placeholder(words: Sequence[str]) -> bool:
    """Whether a title says only that it is one: "Title of the first point", "Point 3", "..."."""
    known = echoes()
    empty = [word for word in words if word in known.labels or word in known.ordinals or word.isdigit()]
    return len(empty) == len(words) and (not words or any(word in known.labels for word in words))


def says_the_same(title: str, other: str, question: str = "") -> bool:
    """Whether two titles have the same content words, or nearly; those of the question count less."""
    first, second = words_of(title), words_of(other)
    if first == second:
        return True
    asked = content_of(words_of(question))
    mine, theirs = content_of(first), content_of(second)
    if mine - asked and theirs - asked:
        mine, theirs = mine - asked, theirs - asked
    if not mine or not theirs or min(len(mine), len(theirs)) < 2:
        return bool(mine) and mine == theirs
    return len(mine & theirs) > ALIKE * len(mine | theirs)


def content_of(words: Sequence[str]) -> set[str]:
    """The beginnings of the words that tell something; of all words where none does."""
    generic = echoes().generic
    telling = (word for word in words if len(word) > 3 or not word.isascii() or word.isdigit())
    content = {word[:_STEM] for word in telling if word not in generic}
    return content or {word[:_STEM] for word in words}
