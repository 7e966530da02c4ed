"""The tables of ``forms.toml``: words for the length and the form of an answer, by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from stretto.language import tables_in
from stretto.language.folding import fold
from stretto.language.lists import anywhere, first_letter_first

FormName = Literal["paragraphs", "bulleted", "numbered", "sections"]
FORMS: tuple[FormName, ...] = ("paragraphs", "bulleted", "numbered", "sections")
"""Forms of an answer in points. If a question names more than one, the first one here counts."""
NEAR_BEFORE, NEAR_AFTER = 60, 40  # characters around a length in which words can say that it applies to each part
CHARACTERS_A_WORD = 2  # of Chinese, Japanese or Korean


@dataclass(frozen=True, slots=True)
class Forms:
    """The patterns of ``forms.toml``, compiled, for folded text.

    Attributes:
        length: a number and its unit, as the group "number" and one of "words", "characters", "sentences", "lines".
        brief: asks for a short answer as a whole.
        brief_unless_each: the same, unless words nearby refer to each part.
        each: words that refer to each part.
        short: asks for parts shorter than usual.
        deep: asks for parts longer than usual.
        asked: by form, what asks for it.
        any_asked: matches if one of them does, faster than trying each: most texts ask for no form.
    """

    length: re.Pattern[str]
    brief: re.Pattern[str]
    brief_unless_each: re.Pattern[str]
    each: re.Pattern[str]
    short: re.Pattern[str]
    deep: re.Pattern[str]
    asked: Mapping[FormName, re.Pattern[str]]
    any_asked: re.Pattern[str]


@cache
def forms() -> Forms:
    """Return the patterns, read and compiled once."""
    tables = tables_in("forms.toml")
    whole = [table for table in tables.values() if table.get("whole-words", True)]
    parts = [table for table in tables.values() if not table.get("whole-words", True)]

    def words(*keys: str) -> re.Pattern[str]:
        either = first_letter_first(_patterns(whole, *keys))
        return re.compile(rf"\b(?=\w)(?:{either})\b|{anywhere(_patterns(parts, *keys))}")

    def unit(key: str) -> str:
        several = [rf"(?:{'|'.join(found)})\b"] if (found := _patterns(whole, key)) else []
        return rf"(?P<{key}>{'|'.join([*several, *_patterns(parts, key)])})"

    units = "|".join(map(unit, ("words", "characters", "sentences", "lines")))
    return Forms(
        # Begins with a digit, not with \b, so that the search skips to digits.
        length=re.compile(rf"(?P<number>\d(?<![a-zà-ÿ\d]\d)\d{{0,4}})[- ]?(?:{units})"),
        brief=words("brief"),
        brief_unless_each=words("brief-unless-each"),
        each=words("each"),
        short=words("short"),
        deep=words("deep"),
        asked={name: words(name) for name in FORMS},
        any_asked=words(*FORMS),
    )


def form_named(text: str) -> FormName | None:
    """Return the form that a folded text asks for, if it names one."""
    known = forms()
    if (first := known.any_asked.search(text)) is None:
        return None
    return next((name for name in FORMS if known.asked[name].search(text, first.start())), None)


def depth_wanted(text: str) -> float:
    """Return the length of each part that a folded text asks for, as a multiple of the usual length."""
    if forms().deep.search(text):
        return 2.0
    return 0.5 if forms().short.search(text) else 1.0


def words_wanted(text: str) -> int | None:
    """Return the length in words that a folded text asks for, if it names one; characters are converted."""
    for found in forms().length.finditer(text):
        number = int(found["number"])
        if found["words"] and number > 9:
            return number
        if found["characters"] and number > 9 * CHARACTERS_A_WORD:
            return number // CHARACTERS_A_WORD
    return None


def is_of_each(text: str) -> bool:
    """Return whether a length that a folded text names applies to each part: "in 20 words each"."""
    spans = ((max(0, found.start() - NEAR_BEFORE), found.end() + NEAR_AFTER) for found in forms().length.finditer(text))
    return any(forms().each.search(text[start:end]) for start, end in spans)


def _patterns(tables: Iterable[Mapping[str, Any]], *keys: str) -> list[str]:
    """Return what these languages list under these keys, folded."""
    return [fold(pattern) for table in tables for key in keys for pattern in table.get(key, ())]
