"""Judges answers by code: whether they have the form that was asked for, and say what they had to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["Judge", "has_fields", "in_language", "is_label", "is_plan", "is_quotation", "says_nothing"]

Judge = Callable[[str], bool]

_NUMBERED = re.compile(r"\d{1,2}[.):]\s*\S")
_WORD = re.compile(r"\w+")
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


def is_plan(answer: str) -> bool:
    """An opening, and the headings of two sections or a line for each."""
    lines = [line.strip(" *_#->").casefold() for line in answer.splitlines()]
    opening = next((line for line in lines if line.startswith("opening:")), "")
    headings = next((line.count("|") + 1 for line in lines if line.startswith("sections:")), 0)
    return len(words(opening)) > 4 and max(headings, sum(_NUMBERED.match(line) is not None for line in lines)) > 1


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
        except (ValueError, RecursionError):
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
