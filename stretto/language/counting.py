"""How many points a text asks for, in any language of ``words.toml``.

A number counts where points stand behind it ("five good tips", "пять советов", "五个建议"), or in Japanese and Korean
before it ("ヒントを5つ"). Native digits are read like others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from stretto.language.folding import UNSPACED, fold

MOST_BETWEEN = 3  # words between a number and its points
LONGEST_NUMBER = 3  # digits; longer ones are years

_MARKS = "\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0962\u0963"  # parts of a word that \w leaves out
_TOKEN = re.compile(rf"(?:(?![{UNSPACED}\uac00-\ud7af])[\w{_MARKS}'’-])+")
_TOP = re.compile(r"(?:top|топ|トップ)[- ]?(\d{1,3})(?!\d)")
_CLAUSE_ENDS = re.compile(r"(?:^|[.!?:;\n।؛])\s*$")
_NOT_BETWEEN = re.compile(r"to|or|and|of|out|bis|oder|und|à|ou|et|o|y|e|и|или|до|و|او|और|या|ve|veya|ile")
_FOR_EACH = re.compile(
    r"(?: (?:for|on|about|of|from|in|to|against))? (?:each|every|both|per|apiece|für jede[nrs]?|pour chaque|para cada"
    r"|per ogni|voor elke?|для кажд|لكل)(?!\w)(?! (?:with|in|one|about|having|explained|under)\b)"
)
_EACH_BEFORE = re.compile(r"(?:[每各]|\bher |(?<!\w)हर |(?<!\w)प्रत्येक )[^.!?,，。、؟।\n]*$")
_HAN = {"〇": 0, "零": 0, "两": 2, "兩": 2} | {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}
_HAN_NUMBER = r"\d{1,3}|[〇零一二两兩三四五六七八九十百]{1,4}"
_KOREAN = {"두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10, "열두": 12}


@dataclass(frozen=True, slots=True)
class Count:
    """A number of points in a text: its value, its place and language (empty: written in digits)."""

    value: int
    start: int
    end: int
    language: str


@dataclass(frozen=True, slots=True)
class _Words:
    """The tables of ``words.toml`` by word."""

    numbers: dict[str, dict[str, int]]  # by word (or words with a blank between), then language
    homographs: frozenset[str]
    points: dict[str, frozenset[str]]  # languages by word
    beginnings: dict[str, frozenset[str]]  # languages by the first letters
    ask: frozenset[str]
    between: frozenset[str]
    ask_behind: frozenset[str]
    pointing: frozenset[str]
    verb_last: frozenset[str]  # languages
    unspaced: tuple[re.Pattern[str], ...]
    unspaced_items: re.Pattern[str]


@cache
def _words() -> _Words:
    tables = tomllib.loads(files("stretto.language").joinpath("words.toml").read_text("utf-8"))
    spaced = {name: table for name, table in tables.items() if "numbers" in table}
    numbers: dict[str, dict[str, int]] = {}
    points: dict[str, set[str]] = {}
    for name, table in spaced.items():
        for value, words in table["numbers"].items():
            for word in _listed(words):
                numbers.setdefault(word, {})[name] = int(value)
        for word in _listed(table["points"]):
            points.setdefault(word, set()).add(name)
    unspaced = [table for name, table in tables.items() if name not in spaced]
    every = _alternatives(*(table[key] for table in unspaced for key in ("counters", "items")))

    def all_of(key: str) -> frozenset[str]:
        return frozenset(word for table in spaced.values() for word in _listed(table.get(key, "")))

    return _Words(
        numbers=numbers,
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
        unspaced_items=re.compile(rf"(?<!第)({_HAN_NUMBER})\s?(?:{every})"),
    )


def _listed(words: str) -> list[str]:
    return [fold(word.strip()) for word in words.split(",") if word.strip()]


def _alternatives(*listed: str) -> str:
    words = {word for each in listed for word in _listed(each)}
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


def _unspaced(name: str, table: dict[str, Any]) -> Iterator[re.Pattern[str]]:
    counters, points = _alternatives(table["counters"]), _alternatives(table["points"])
    number = rf"\d{{1,3}}|{'|'.join(sorted(_KOREAN, key=len, reverse=True))}" if name == "ko" else _HAN_NUMBER
    unlike = "".join(rf"(?<!{re.escape(word)})" for word in _listed(table["pointing"]))
    counted = rf"{unlike}(?<![\d.\-~〜～一二三四五六七八九十])(?P<number>{number})\s?(?:{counters})"
    gap = r"[^\s、。，,.!?:：]"
    if name == "zh":
        yield re.compile(rf"{counted}(?:{gap}{{0,14}}?的)?{gap}{{0,2}}?(?:{points})")
        return
    link = r"(?:의)?\s?" if name == "ko" else "の"
    bare = "" if name == "ko" else rf"|{unlike}(?<![\d.\-~〜～])(?P<bare>{number})の{gap}{{0,6}}?(?:{points})"
    yield re.compile(rf"{counted}{link}{gap}{{0,6}}?(?:{points}){bare}")
    yield re.compile(rf"(?:{points})(?:을|를|は|を|が|の)?\s?{gap}{{0,4}}?{counted}(?!ずつ|씩)")


def points_counted(text: str) -> list[Count]:
    """Every number of points in a text that is folded (`fold`), in no order that matters."""
    words = _words()
    tokens = list(_TOKEN.finditer(text))
    found = []
    for place in range(len(tokens)):
        for count, end in _numbers_at(text, tokens, place):
            noun = _points_behind(text, tokens, end, count.language)
            if noun is not None:
                found.append(Count(count.value, count.start, tokens[noun].end(), count.language))
                break
    if not text.isascii():
        for pattern in words.unspaced:
            for match in pattern.finditer(text):
                named = match.groupdict()
                value = _value(named["number"] or named["bare"])
                if value > 1:
                    found.append(Count(value, match.start(), match.end(), "unspaced"))
    return found


def points_wanted(text: str) -> int:
    """How many points an answer is to have ("15 tips", "the top 20", "十二个理由"); 0 if no number is named."""
    text = fold(text)
    counts = points_counted(text)
    if counts:
        return min(counts, key=lambda count: count.start).value
    top = _TOP.search(text)
    return int(top[1]) if top else 0


def points_asked(text: str) -> int | None:
    """The number of points, 3 to 10, that a question plainly asks the answer to have; ``None`` where it names none.

    Ranges, lower bounds, numbers for each of several things and two numbers side by side are left to the outline.
    """
    text = fold(text)
    counts = points_counted(text)
    if len(counts) != 1 or not 3 <= counts[0].value <= 10:
        return None
    (count,) = counts
    distributed = _FOR_EACH.match(text, count.end) or _EACH_BEFORE.search(text[: count.start])
    return count.value if not distributed and _is_asked(text, count) else None


def numbers_in(text: str) -> Iterator[int]:
    """The numbers of a text that is folded, words and figures, in their order; those that may be other words left out.

    In a script without blanks, a number needs a word behind it that counts things.
    """
    words = _words()
    tokens = list(_TOKEN.finditer(text))
    place = 0
    while place < len(tokens):
        count, behind = next(_numbers_at(text, tokens, place), (None, place + 1))
        if count is not None and text[count.start : count.end] not in words.homographs:
            yield count.value
        place = behind
    if not text.isascii():
        yield from (_value(found[1]) for found in words.unspaced_items.finditer(text) if not found[1].isdigit())


def _numbers_at(text: str, tokens: list[re.Match[str]], place: int) -> Iterator[tuple[Count, int]]:
    """The numbers that begin with a token, the longest first, each with the token behind it."""
    numbers, token = _words().numbers, tokens[place]
    for length in (3, 2, 1):
        several = tokens[place : place + length]
        if len(several) == length:
            name = text[token.start() : several[-1].end()]
            for language, value in numbers.get(name, {}).items():
                yield Count(value, token.start(), several[-1].end(), language), place + length
    if token[0].isdecimal() and len(token[0]) <= LONGEST_NUMBER:
        yield Count(int(token[0]), token.start(), token.end(), ""), place + 1


def _points_behind(text: str, tokens: list[re.Match[str]], place: int, language: str) -> int | None:
    """The token behind a number that names its points, in the language of the number."""
    words = _words()
    direct = tokens[place - 1][0] in words.homographs
    for at in range(place, min(place + 1 + (0 if direct else MOST_BETWEEN), len(tokens))):
        if text[tokens[at - 1].end() : tokens[at].start()] != " ":
            return None
        word = tokens[at][0]
        if word == "of" and at == place and at + 1 < len(tokens) and tokens[at + 1][0] in {"the", "your"}:
            continue
        languages = words.points.get(word) or _by_beginning(word)
        if languages and (not language or language in languages):
            return at
        if _NOT_BETWEEN.fullmatch(word) or word[0].isdecimal():
            return None
    return None


def _by_beginning(word: str) -> frozenset[str]:
    beginnings = _words().beginnings
    for length in range(len(word), 2, -1):
        if found := beginnings.get(word[:length]):
            return found
    return frozenset()


def _is_asked(text: str, count: Count) -> bool:
    """Whether a number stands where a question asks for so many: behind "give me", at the start, before "please"."""
    if count.language == "unspaced":
        return True
    words = _words()
    before = list(_TOKEN.finditer(text, 0, count.start))
    while before and before[-1][0] in words.between and text[before[-1].end() : count.start].strip() == "":
        count = Count(count.value, before.pop().start(), count.end, count.language)
    if _CLAUSE_ENDS.search(text[: count.start]):
        return True
    if before and before[-1][0] in words.ask and text[before[-1].end() : count.start] == " ":
        return True
    return _asked_behind(text, count, before)


def _asked_behind(text: str, count: Count, before: list[re.Match[str]]) -> bool:
    """Whether, in a language whose verb comes last, the sentence goes on to ask for the points or ends with them."""
    words = _words()
    noun = next(reversed(list(_TOKEN.finditer(text, count.start, count.end))))[0]
    languages = words.points.get(noun) or _by_beginning(noun)
    if not languages & words.verb_last or (before and before[-1][0] in words.pointing):
        return False
    rest = re.split(r"[.!?\n।]", text[count.end :], maxsplit=1)[0]
    return rest.lstrip()[:1] in ("", ",") or any(token[0] in words.ask_behind for token in _TOKEN.finditer(rest))


def _value(number: str) -> int:
    """The value of a number in figures, Han or Korean."""
    if number.isdecimal():
        return int(number)
    if number in _KOREAN:
        return _KOREAN[number]
    hundreds, _, rest = number.rpartition("百")
    tens, ten, ones = rest.rpartition("十")
    total = 100 * (_HAN.get(hundreds[-1:], 1) if hundreds or "百" in number else 0)
    if ten:
        total += 10 * (_HAN.get(tens[-1:], 1))
    return total + _HAN.get(ones[-1:], 0)
