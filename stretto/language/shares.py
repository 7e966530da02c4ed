"""The target length of a text that is to be shortened: "by a third", "to 60 %", "in 300 words"."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

from stretto.language import tables_in
from stretto.language.folding import fold
from stretto.language.forms import is_of_each

Measure = Literal["share", "words", "characters"]

_PARTS = {"three-quarters": 3 / 4, "two-thirds": 2 / 3, "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4}
_NEAR = 18  # characters between "to" or "by" and an amount: "about", an article
_LONGEST = 12  # characters of such a word
_BREAK = re.compile(r"[.,;:!?。，、]")
_FILLERS = (
    "about|around|roughly|approx|exact|near|most|more|than|less|only|under|just|some|aprox|environ|circa|maxim|eine|etwa"
    "|rund|ungef|hoch|genau|good|full|furth|anoth"
)
_OTHER_WORD = re.compile(rf"\b(?!{_FILLERS})[a-z]{{4}}|\b(?:add|get|say|see|use)\b")  # "to show 20% growth"
_FRACTION = r"(?<![\d/])(?P<over>[1-9])/(?P<under>[2-9])(?![\d/])"
_PERCENT = r"(?<![\d.,])(?P<percent>\d\d)"
_NUMBER = r"(?<![\d.,/])(?P<number>\d{1,3}(?:[.,’ ]\d{3}){1,2}|\d{2,6})"


def length_asked(task: str) -> tuple[float, Measure] | None:
    """Return the length that a task names for the whole text; ``None`` if it names none or is ambiguous."""
    text = fold(task)
    share, total, before, after = _patterns()
    for found in share.finditer(text):
        part = next((value for name, value in _PARTS.items() if found[name.replace("-", "_")]), None)
        if part is None:
            part = int(found["over"]) / int(found["under"]) if found["over"] else int(found["percent"]) / 100
        way = _way(before, after, text, found)
        if 0 < part < 1 and (way or found["half"]):
            return (1 - part if way and way["by"] else part), "share"
    totals: list[tuple[bool, int, Measure]] = []
    for found in total.finditer(text):
        way = _way(before, after, text, found)
        if not (way and way["by"]):
            measure: Measure = "words" if found["words"] else "characters"
            totals.append((way is None, int(re.sub(r"\D", "", found["number"])), measure))
    return min(totals)[1:] if totals and not is_of_each(text) else None


def _way(before: re.Pattern[str], after: re.Pattern[str], text: str, amount: re.Match[str]) -> re.Match[str] | None:
    """Return the "to" or "by" of an amount; one after it beats a single letter before it, perhaps an article."""
    first, second = _nearest(before, text, amount.start()), after.match(text, amount.end())
    return second or first if first is None or len(first[0]) == 1 else first


def _nearest(before: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """Return the last "to" or "by" before an amount, with only words such as "about" between; of "by a", the first."""
    found = None
    for each in before.finditer(text, max(0, start - _NEAR - _LONGEST), start):
        if found is None or each[0] != "a" or text[found.end() : each.start()].strip():
            found = each
    between = text[found.end() : start] if found else ""
    fits = len(between) <= _NEAR and not _BREAK.search(between) and not _OTHER_WORD.search(between)
    return found if fits else None


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of an amount as a share and as a total, and of "to" or "by" before and after it."""
    tables = tables_in("forms.toml").values()

    def either(*keys: str) -> str:
        return "|".join([_either(tables, keys, whole=True), _either(tables, keys, whole=False)])

    parts = "|".join(f"(?P<{name.replace('-', '_')}>{either(name)})" for name in _PARTS)
    ways = {side: f"(?:(?P<to>{either(f'to{side}')})|(?P<by>{either(f'by{side}')}))" for side in ("", "-behind")}
    return (
        re.compile(rf"{_FRACTION}|{_PERCENT} ?(?:[%٪％]|{either('percent')})|{parts}"),
        re.compile(rf"{_NUMBER}[- ]?(?:(?P<words>{either('words')})|{either('characters', 'letters')})"),
        re.compile(ways[""]),
        re.compile(rf" ?{ways['-behind']}"),
    )


def _either(tables: Any, keys: tuple[str, ...], *, whole: bool) -> str:
    of_these = [table for table in tables if table.get("whole-words", True) is whole]
    patterns = "|".join(fold(each) for key in keys for table in of_these for each in table.get(key, ())) or "(?!)"
    return rf"\b(?:{patterns})\b" if whole else patterns
