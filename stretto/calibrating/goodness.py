"""Whether a smaller model's answer is as good as the large one's: decided by code where possible, else by a judge.

In this order: the right answer, if the question has one; the format, if it has one; equality of both answers after
normalisation; the preference of a judge who has read both in both orders.
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
"""What decided it; "none": the smaller model gave no answer."""

Judge = Callable[[], Awaitable[bool | None]]


@dataclass(frozen=True)
class Goodness:
    """The result of comparing an answer.

    Attributes:
        good: whether the answer of the smaller model is as good.
        judged_by: what decided it.
        right: whether the answers of the smaller model and of the large one are correct, if known.
    """

    good: bool
    judged_by: JudgedBy
    right: tuple[bool, bool] | None = None


async def goodness(question: LabelledQuestion, small: Scored, main: Sample, judge: Judge | None) -> Goodness | None:
    """Compare an answer with that of the large model; ``judge`` is asked only if code cannot decide.

    ``None`` if the judge gives no answer. Raises `InvalidRequestError` if nothing can decide.
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
    """Return whether a text gives the right answer: an equivalent one, or one that contains it as a phrase."""
    reading = VoteReader(question.question, question.language_wanted)
    ballot, spoken = reading.ballot(text), words_of(text)
    for wanted in question.answer:
        right = reading.ballot(wanted)
        if ballot is not None and right is not None and ballot.key == right.key:
            return True
        if (right is None or not _is_definite(right)) and not (ballot is not None and ballot.key in ("yes", "no")):
            words = words_of(wanted)
            if words and _contains(spoken, words) and _negated(spoken) <= _negated(words):
                return True
    return False


def _is_definite(ballot: Ballot) -> bool:
    """Return whether an answer must match exactly: a number, yes or no, a letter."""
    return ballot.key in ("yes", "no") or len(ballot.key) == 1 or ballot.key.replace(".", "").lstrip("-").isdigit()


def _contains(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))


def _negated(words: list[str]) -> bool:
    return not wording().negations.isdisjoint(words)


def _by_format(question: LabelledQuestion, small: str, main: str) -> Goodness:
    """Decide by whether the answers fit the format and, if both do, by their content."""
    options = GenerationOptions(response_format=question.response_format)
    one, other = fit(small, options), fit(main, options)
    if one.wrong or other.wrong:
        return Goodness(not one.wrong, "format")
    return Goodness(of_value(one.value) == of_value(other.value), "equality")


def _by_equality(question: LabelledQuestion, small: str, main: str) -> Goodness | None:
    """Decide by equality of short answers; ``None`` for longer texts."""
    reading = VoteReader(question.question, question.language_wanted)
    one, other = reading.ballot(small), reading.ballot(main)
    if one is None or other is None or (_is_definite(other) and not one.comparable):
        return Goodness(False, "equality")
    return Goodness(one.key == other.key, "equality") if one.comparable and other.comparable else None
