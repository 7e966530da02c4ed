"""Whether the answer of a smaller model is as good as that of the large one: by code where that can tell, else a judge.

In this order: the right answer, where the question has one; the format, where it has one; equality of what both say,
once it is written in one way; the preference of a judge who has read both in both orders.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from stretto.calibrating.measuring import Scored
from stretto.calibrating.questions import LabelledQuestion
from stretto.comparing import Sample
from stretto.strategies.consensus.ballots import Ballot, VoteReader, of_value, wording
from stretto.strategies.quality.words import words_of
from stretto.strategies.structured.fitting import fit
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import GenerationOptions

JudgedBy = Literal["answer", "format", "equality", "judge", "none"]
"""What decided it; "none": there is no answer of the smaller model."""

Judge = Callable[[], Awaitable[bool | None]]


@dataclass(frozen=True)
class Goodness:
    """What was found.

    Attributes:
        good: the answer of the smaller model is as good.
        judged_by: what decided it.
        right: whether the answers of the smaller model and of the large one are right, where that is known.
    """

    good: bool
    judged_by: JudgedBy
    right: tuple[bool, bool] | None = None


async def goodness(question: LabelledQuestion, small: Scored, main: Sample, judge: Judge | None) -> Goodness | None:
    """Compare an answer with that of the large model; ``judge`` is asked only where code cannot tell.

    ``None`` where the judge gives no answer. Raises `InvalidRequestError` where nothing can tell.
    """
    if question.answer:
        right = is_right(small.text, question) and not small.failed, is_right(main.text, question)
        return Goodness(right[0] or not right[1], "answer", right)
    if small.failed:
        return Goodness(False, "none")
    if small.text.strip() == main.text.strip():
        return Goodness(True, "equality")
    by_code = _by_equality if question.response_format is None else _by_format
    found = by_code(question, small.text, main.text)
    if found is not None and (found.good or judge is None or found.judged_by == "format"):
        return found
    if judge is None:
        raise InvalidRequestError(
            f"The answers to question {question.id!r} are longer texts, which code cannot compare. "
            'Name a judge, or give the right "answer" in the file.'
        )
    preferred = await judge()
    return None if preferred is None else Goodness(preferred, "judge")


def is_right(text: str, question: LabelledQuestion) -> bool:
    """Whether a text says the right answer: the same in other words, or a phrase that it contains."""
    reading = VoteReader(question.question, question.language_wanted)
    said, spoken = reading.ballot(text), words_of(text)
    for wanted in question.answer:
        right = reading.ballot(wanted)
        if said is not None and right is not None and said.key == right.key:
            return True
        if (right is None or not _is_definite(right)) and not (said is not None and said.key in ("yes", "no")):
            words = words_of(wanted)
            if words and _contains(spoken, words) and _negated(spoken) <= _negated(words):
                return True
    return False


def _is_definite(ballot: Ballot) -> bool:
    """Whether an answer has to say just this: a number, yes or no, a letter."""
    return ballot.key in ("yes", "no") or len(ballot.key) == 1 or ballot.key.replace(".", "").lstrip("-").isdigit()


def _contains(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))


def _negated(words: list[str]) -> bool:
    return not wording().negations.isdisjoint(words)


def _by_format(question: LabelledQuestion, small: str, main: str) -> Goodness:
    """By whether they fit; where both do, by what they say."""
    options = GenerationOptions(response_format=question.response_format)
    one, other = fit(small, options), fit(main, options)
    if one.wrong or other.wrong:
        return Goodness(not one.wrong, "format")
    return Goodness(of_value(one.value) == of_value(other.value), "equality")


def _by_equality(question: LabelledQuestion, small: str, main: str) -> Goodness | None:
    """By what both say in short; ``None`` for longer texts."""
    reading = VoteReader(question.question, question.language_wanted)
    one, other = reading.ballot(small), reading.ballot(main)
    if one is None or other is None or (_is_definite(other) and not one.comparable):
        return Goodness(False, "equality")
    return Goodness(one.key == other.key, "equality") if one.comparable and other.comparable else None
