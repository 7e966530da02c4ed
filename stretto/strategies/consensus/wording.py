"""The tables of ``words.toml``, compiled."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Wording", "wording"]

_ENDS = r"(?=\s*(?:[,.;:!–—\n-]|$))"  # "no" in "no one knows" is no answer


@dataclass(frozen=True, slots=True)
class Wording:
    """The patterns of all languages together, for text in lower case.

    Attributes:
        asks_number: to be searched for in a question.
        answer: leads to the answer at the end of a text.
        yes: begins an answer to a yes-or-no question.
        no: likewise.
        article: at the beginning of a phrase.
        negations: words that no phrase may lose.
    """

    asks_number: re.Pattern[str]
    answer: re.Pattern[str]
    yes: re.Pattern[str]
    no: re.Pattern[str]
    article: re.Pattern[str]
    negations: frozenset[str]


@cache
def wording() -> Wording:
    """The patterns, read and compiled once."""
    tables = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8")).values()

    def either(name: str) -> str:
        return "|".join(table[name] for table in tables)

    return Wording(
        asks_number=re.compile(rf"\b(?:{either('number')})\b|\d\s*[-−+*/×x÷·^]\s*\d"),
        answer=re.compile(
            rf"\b(?:{either('answer')})(?:\s+(?:{either('is')})\b(?:\s*:)?|\s*[:=])\s*|####\s*", re.IGNORECASE
        ),
        yes=re.compile(rf"(?:{either('yes')}){_ENDS}"),
        no=re.compile(rf"(?:{either('no')}){_ENDS}"),
        article=re.compile(rf"(?:{either('article')})(?:\s+|(?<='))"),
        negations=frozenset(either("negation").split("|")),
    )
