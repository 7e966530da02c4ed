"""Judges answers by code: whether they have the form that was asked for, and say what they had to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from stretto.language.telling import language_of

__all__ = ["Judge", "has_fields", "in_language", "is_label", "is_outline", "is_point", "is_quotation", "says_nothing"]

Judge = Callable[[str], bool]

_LINE = re.compile(r"^ {0,4}(?:\d{1,2}[.)]|[-*•])[ \t]+(\S.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_PLACEHOLDERS = frozenset({"title", "point", "heading", "outline", "placeholder"})
_LONGEST_TITLE = 12  # words
_RUN = 8  # words in a row that no answer shares with its prompt
_NOTHING = re.compile(r"\W*(none|nothing|no information|not (?:stated|mentioned|given))\b", re.IGNORECASE)
_SMALL_WORDS = {
    "de": "der die das und ist ein eine zu in den mit von nicht sie es auf für im dem",
    "es": "el la los las y es un una de que en con por no se para del al",
    "en": "the a an and is are of to in that it with for on as be this",
}
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(known.split()) for language, known in _SMALL_WORDS.items()
}


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.casefold())


def is_outline(prompt: str) -> Judge:
    """Two titles or more that are short, distinct, no placeholders and not copied from the prompt."""
    shown = {" ".join(words(line)) for line in prompt.splitlines()}
    shown |= {" ".join(words(found)) for found in _LINE.findall(prompt)}

    def judge(answer: str) -> bool:
        titles = [words(found) for found in _LINE.findall(answer)]
        if len(titles) < 2:
            return False
        good = {" ".join(title) for title in titles if _is_title(title)} - shown
        return len(good) >= 2 and 3 * len(good) >= 2 * len(titles)

    return judge


def _is_title(title: list[str]) -> bool:
    return 0 < len(title) <= _LONGEST_TITLE and not (len(title) <= 6 and _PLACEHOLDERS & set(title))


def is_point(prompt: str) -> Judge:
    """Some sentences that share no eight words with the prompt and do not turn in circles."""
    shown = _runs(words(prompt))

    def judge(answer: str) -> bool:
        said = words(answer)
        runs = _runs(said)
        return len(said) >= _RUN and shown.keys().isdisjoint(runs) and all(count < 4 for count in runs.values())

    return judge


def is_point_in(language: str, prompt: str) -> Judge:
    """A point in this language."""
    is_one = is_point(prompt)
    return lambda answer: is_one(answer) and language_of(answer, "") == language


def _runs(said: list[str]) -> dict[tuple[str, ...], int]:
    counts: dict[tuple[str, ...], int] = {}
    for begin in range(len(said) - _RUN + 1):
        run = tuple(said[begin : begin + _RUN])
        counts[run] = counts.get(run, 0) + 1
    return counts


def is_label(right: str) -> Judge:
    """The right label and nothing else."""
    return lambda answer: words(answer) == words(right)


def is_entry(right: str, most: int = 4) -> Judge:
    """A result of a few words with the right one among them."""
    return lambda answer: right.casefold() in words(answer) and len(words(answer)) <= most


def is_quotation(passage: str, fact: str) -> Judge:
    """A text that stands in the passage letter by letter and holds the fact."""

    def judge(answer: str) -> bool:
        said = answer.strip().strip("\"'“”").strip()
        return fact in said and said in passage and len(said) < len(passage) // 2

    return judge


def says_nothing(answer: str) -> bool:
    """That the text does not tell it."""
    return _NOTHING.match(answer) is not None


def has_fields(fields: Mapping[str, type]) -> Judge:
    """One JSON object with these fields and no others."""

    def judge(answer: str) -> bool:
        try:
            found: Any = json.loads(answer)
        except ValueError:
            return False
        return (
            isinstance(found, dict)
            and found.keys() == fields.keys()
            and all(isinstance(found[name], kind) for name, kind in fields.items())
        )

    return judge


def has_length(least: int, most: int) -> Judge:
    """So many words."""
    return lambda answer: least <= len(words(answer)) <= most


def in_language(language: str) -> Judge:
    """More of the small words of this language than of any other."""

    def judge(answer: str) -> bool:
        said = words(answer)
        counts = {name: _count(said, known) for name, known in FUNCTION_WORDS.items()}
        return counts[language] > 0 and counts[language] == max(counts.values())

    return judge


def _count(said: Collection[str], known: Collection[str]) -> int:
    return sum(word in known for word in said)
