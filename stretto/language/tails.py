"""The tables of ``tails.toml``: words that ask for something that needs the finished list, by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from stretto.language import tables_in
from stretto.language.folding import fold
from stretto.language.lists import first_letter_first

MOST_BETWEEN = 3  # words between a link and the request it leads to


@dataclass(frozen=True, slots=True)
class Tails:
    """The patterns of ``tails.toml``, compiled, for folded text.

    Attributes:
        link: a word or a punctuation mark that leads to another task.
        linked: matched after a link; the first group is the request itself.
        anywhere: searched for, in Latin script.
        other_scripts: searched for, in other scripts; ``other_letter``: a letter of theirs.
    """

    link: re.Pattern[str]
    linked: re.Pattern[str]
    anywhere: re.Pattern[str]
    other_scripts: re.Pattern[str]
    other_letter: re.Pattern[str]


@cache
def tails() -> Tails:
    """Return the patterns, read and compiled once."""
    tables = tables_in("tails.toml")
    latin = [table for table in tables.values() if "links" in table]
    others = [table for table in tables.values() if "links" not in table]
    links = {fold(word.strip()) for table in latin for word in table["links"].split(",")}
    return Tails(
        link=re.compile(rf"\b(?=\w)(?:{first_letter_first(sorted(links))}),? |[,.;:!?\n] ?"),
        linked=re.compile(rf"(?<!\w)(?:\w+ ){{0,{MOST_BETWEEN}}}?({_either(latin, 'linked')})"),
        anywhere=re.compile(rf"\b(?=\w)(?:{_either(latin, 'anywhere')})"),
        other_scripts=re.compile(_either(others, "anywhere")),
        other_letter=re.compile("[\u0370-\u1fff\u3005-\ud7ff]"),
    )


def _either(tables: Iterable[Mapping[str, Any]], kind: str) -> str:
    """Return one pattern that matches what any of these languages lists under ``kind``."""
    return "|".join(_filled(pattern, table.get("parts", {})) for table in tables for pattern in table[kind])


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a folded pattern with its parts inserted; parts can contain parts."""
    while (filled := re.sub(r"<([a-z]+)>", lambda name: parts[name[1]], pattern)) != pattern:
        pattern = filled
    return fold(pattern)
