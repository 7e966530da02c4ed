"""The tables of ``words.toml``: number words, words for points, and the words around them, by language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from stretto.language import tables_in
from stretto.language.folding import fold

HAN_NUMBER = r"\d{1,3}|[〇零一二两兩三四五六七八九十百]{1,4}"


@dataclass(frozen=True, slots=True)
class Words:
    """The tables of ``words.toml`` by word, folded."""

    numbers: dict[str, dict[str, int]]  # by word (or words with a space between), then language
    lengths: dict[str, list[int]]  # by first word, the lengths in words of number words, longest first
    homographs: frozenset[str]
    points: dict[str, frozenset[str]]  # languages by word
    beginnings: dict[str, frozenset[str]]  # languages by the first letters
    ask: frozenset[str]
    between: frozenset[str]
    ask_behind: frozenset[str]
    pointing: frozenset[str]
    verb_last: frozenset[str]  # languages
    unspaced: tuple[re.Pattern[str], ...]  # their groups "number" or "bare" are the number
    native: dict[str, int]  # number words of the languages in ``unspaced``
    unspaced_items: re.Pattern[str]  # its first group is the number
    unlike_unspaced: tuple[str, ...]  # before a number: refers to known points, or makes it part of a range


@cache
def words() -> Words:
    """Return the tables, read once."""
    tables = tables_in("words.toml")
    spaced = {name: table for name, table in tables.items() if "counters" not in table}
    numbers: dict[str, dict[str, int]] = {}
    points: dict[str, set[str]] = {}
    for name, table in spaced.items():
        for value, several in table["numbers"].items():
            for word in _listed(several):
                numbers.setdefault(word, {})[name] = int(value)
        for word in _listed(table["points"]):
            points.setdefault(word, set()).add(name)
    unspaced = [table for name, table in tables.items() if name not in spaced]
    every = _alternatives(*(table[key] for table in unspaced for key in ("counters", "items")))

    def all_of(key: str) -> frozenset[str]:
        return frozenset(word for table in spaced.values() for word in _listed(table.get(key, "")))

    return Words(
        numbers=numbers,
        lengths={
            first: sorted({len(name.split()) for name in numbers if name.split()[0] == first}, reverse=True)
            for first in {name.split()[0] for name in numbers}
        },
        homographs=all_of("homographs"),
        points={word: frozenset(found) for word, found in points.items() if not word.endswith("*")},
        beginnings={word[:-1]: frozenset(found) for word, found in points.items() if word.endswith("*")},
        ask=all_of("ask"),
        between=all_of("between"),
        ask_behind=all_of("ask-behind"),
        pointing=all_of("pointing"),
        verb_last=frozenset(name for name, table in spaced.items() if "ask-behind" in table),
        unspaced=tuple(
            pattern for name, table in tables.items() if name not in spaced for pattern in _unspaced(name, table)
        ),
        native={
            word: int(value)
            for table in unspaced
            for value, several in table.get("numbers", {}).items()
            for word in _listed(several)
        },
        unlike_unspaced=(
            *(word for table in unspaced for word in _listed(table["pointing"])),
            *"0123456789.-~〜～一二三四五六七八九十",
        ),
        unspaced_items=re.compile(rf"(?<!第)({HAN_NUMBER})\s?(?:{every})"),
    )


def _listed(listed: str) -> list[str]:
    return [fold(word.strip()) for word in listed.split(",") if word.strip()]


def _alternatives(*listed: str) -> str:
    every = {word for each in listed for word in _listed(each)}
    return "|".join(sorted(map(re.escape, every), key=lambda word: (-len(word), word)))


def _unspaced(name: str, table: dict[str, Any]) -> Iterator[re.Pattern[str]]:
    counters, points = _alternatives(table["counters"]), _alternatives(table["points"])
    number = rf"\d{{1,3}}|{_alternatives(*table['numbers'].values())}" if "numbers" in table else HAN_NUMBER
    counted = rf"(?P<number>{number})\s?(?:{counters})"
    gap = r"[^\s、。，,.!?:：]"
    if name == "zh":
        yield re.compile(rf"{counted}(?:{gap}{{0,14}}?的)?{gap}{{0,2}}?(?:{points})")
        return
    link = r"(?:의)?\s?" if name == "ko" else "の"
    bare = "" if name == "ko" else rf"|(?P<bare>{number})の{gap}{{0,6}}?(?:{points})"
    yield re.compile(rf"{counted}{link}{gap}{{0,6}}?(?:{points}){bare}")
    yield re.compile(rf"(?:{points})(?:을|를|は|を|が|の)?\s?{gap}{{0,4}}?{counted}(?!ずつ|씩)")
