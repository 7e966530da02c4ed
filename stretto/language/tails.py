"""The tables of ``tails.toml``: what asks for something about a finished list, by language."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from stretto.language.folding import fold

MOST_BETWEEN = 3  # words between a link and what it leads to


@dataclass(frozen=True, slots=True)
class Tails:
    """The patterns of ``tails.toml``, compiled, for folded text.

    Attributes:
        link: what leads to another task: a word, or a mark between clauses.
        linked: to be matched behind a link; its first group is what asks.
        anywhere: to be searched for at word boundaries.
        other_scripts: to be searched for in text beyond Latin script.
    """

    link: re.Pattern[str]
    linked: re.Pattern[str]
    anywhere: re.Pattern[str]
    other_scripts: re.Pattern[str]


@cache
def tails() -> Tails:
    """The patterns, read and compiled once."""
    tables = tomllib.loads(files("stretto.language").joinpath("tails.toml").read_text("utf-8"))
    latin = [table for table in tables.values() if "links" in table]
    others = [table for table in tables.values() if "links" not in table]
    links = {fold(word.strip()) for table in latin for word in table["links"].split(",")}
    return Tails(
        link=re.compile(rf"\b(?:{'|'.join(sorted(links))}),? |[,.;:!?\n] ?"),
        linked=re.compile(rf"(?:\w+ ){{0,{MOST_BETWEEN}}}?({_either(latin, 'linked')})"),
        anywhere=re.compile(rf"\b(?:{_either(latin, 'anywhere')})"),
        other_scripts=re.compile(_either(others, "anywhere")),
    )


def _either(tables: Iterable[Mapping[str, Any]], kind: str) -> str:
    """One pattern for what any of these languages has under ``kind``."""
    return "|".join(_filled(pattern, table.get("parts", {})) for table in tables for pattern in table[kind])


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    """A folded pattern with its parts put in; parts may have parts."""
    while (filled := re.sub(r"<([a-z]+)>", lambda name: parts[name[1]], pattern)) != pattern:
        pattern = filled
    return fold(pattern)
