"""Finds how many independent samples a request asks for: "Write 10 slogans for a bakery".

Only known kinds of things count, those of which several can be written independently. Ordered, ranked, calculated and
connected things do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stretto.language.counting import number_value
from stretto.language.folding import fold
from stretto.language.lists import first_letter_first, languages, listed, spaced, unspaced
from stretto.language.words import words

Size = Literal["short", "medium", "long"]

MOST_SAMPLES = 100
HEAD, TAIL = 2000, 1000  # characters read at the beginning and at the end of a long text
LONGEST_LEAD = 10  # words before the number in its sentence
_FLAGS = re.IGNORECASE
_KINDS: tuple[Size, ...] = ("long", "short", "medium")
_NUMBERS = {
    word: values[language]
    for word, values in words().numbers.items()
    for language in languages("medium")
    if language in values and " " not in word
}


_NUMBER_WORD = first_letter_first(sorted(_NUMBERS, key=len, reverse=True), any_case=True)
_NUMBER = rf"(?P<number>\d{{1,3}}|(?:an? )?(?:half a )?(?:couple of )?(?:{_NUMBER_WORD}))"
_BETWEEN = rf"(?:(?!{spaced('not-between-kinds')}\b)[\w'’“”\"-]+,? ){{0,4}}?"
_COUNT = re.compile(
    rf"(?<![\w.,-]){_NUMBER} (?:of (?:my|your|the) )?(?P<between>{_BETWEEN})"
    rf"(?:{'|'.join(f'(?P<{size}>{spaced(size)})' for size in _KINDS)})(?![\w-])",
    _FLAGS,
)
_UNSPACED = re.compile(
    rf"(?P<number>\d{{1,3}}|[二三四五六七八九十两兩]{{1,3}})\s*{unspaced('counters')}\s*(?:[^\s，。,.、]{{0,10}}?)"
    rf"(?:(?P<short>{unspaced('short')})|{unspaced('medium')})"
    rf"|{unspaced('counted-behind')}を(?P<behind>\d{{1,3}}){unspaced('counters-behind')}?"
)
_ASKS = listed("asks")
_ORDERED = listed("ordered")
_ORDERED_UNSPACED = re.compile(rf"{unspaced('ordered-before')}$")
_BEFORE = re.compile(rf"(?:\b{spaced('before-number')}|[$€£#/+*=×-])\s*$", _FLAGS)
_LIMIT = re.compile(rf"\b{spaced('limit')}\s*$", _FLAGS)
_SET_OF = re.compile(rf"\b{spaced('set-of')}\s*$", _FLAGS)
_CONNECTED = listed("connected")
_OTHER_TASK = re.compile(rf"(?:^|[.!?\n]\s{{0,20}}|\b{spaced('other-task-lead')} ){spaced('other-task')}(?!\w)", _FLAGS)
_LONGER = listed("longer")
_LENGTH_UNIT = listed("length-unit")
_LENGTH_BEFORE = re.compile(rf"(?:\b{spaced('length-before')}|[-–])\s*$", _FLAGS)
_LENGTH_BEHIND = re.compile(rf"\s*{spaced('length-behind')}(?!\w)", _FLAGS)
_LENGTH_OF = listed("length-of")


@dataclass(frozen=True)
class Count:
    """A number of samples and their size: a few words, a sentence or two, or more."""

    number: int
    size: Size


def counted(text: str) -> Count | str | None:
    """The samples asked for; a string: why they cannot be written separately; ``None``: the text counts nothing."""
    if len(text) > HEAD + TAIL:  # the task is at either end of a long text
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    found = [match for match in _COUNT.finditer(text) if not _length_of_text(text, match)]
    if not found:
        return _unspaced(text)
    found = found[:1] + [match for match in found[1:] if not _LIMIT.search(text[: match.start()])]
    first = found[0]
    lead = text[: first.start()]
    sentence = re.split(r"[.!?\n:]\s", lead)[-1]
    if objection := next(_objections(found, lead), None):
        return objection
    if sentence.strip(" \"'*#-") and (not _ASKS.search(sentence) or len(sentence.split()) > LONGEST_LEAD):
        return None
    if other := _OTHER_TASK.search(text):
        return f'it asks for something else besides ("{other[0].strip()}")'
    return _checked(text, _number(first["number"]), next(size for size in _KINDS if first[size]))


def _objections(found: Sequence[re.Match[str]], lead: str) -> Iterator[str]:
    """Reasons why the first number does not count samples."""
    first = found[0]
    if len({_kind(match) for match in found}) > 1 or len({_number(match["number"]) for match in found}) > 1:
        yield "several things are counted"
    if (before := _BEFORE.search(lead)) and not _SET_OF.search(lead):
        yield f'the number is not one of samples ("{before[0].strip()} {first[0]}")'
    if ordered := _ORDERED.search(first["between"] or "") or _ORDERED.search(lead[-20:]):
        yield f'they have an order or are facts to look up ("{ordered[0]}")'


def _checked(text: str, number: int, size: Size) -> Count | str | None:
    if connected := _CONNECTED.search(text):
        return f'they hang together ("{connected[0]}")'
    if number > MOST_SAMPLES:
        return f"{number} samples are more than {MOST_SAMPLES}"
    if _LONGER.search(text):
        size = "long"
    return Count(number, size)


def _unspaced(text: str) -> Count | str | None:
    found = _UNSPACED.search(text)
    if not found:
        return None
    if _ORDERED_UNSPACED.search(text[: found.start()]):
        return "they have an order or are facts to look up"
    number = number_value(found["number"] or found["behind"])
    return _checked(text, number, "short" if found["short"] else "medium")


def _length_of_text(text: str, match: re.Match[str]) -> bool:
    """'In 3 sentences', 'two or three sentences long': the length of one answer, not a number of samples."""
    if not _LENGTH_UNIT.fullmatch(match[0].split()[-1]):
        return False
    lead, rest = text[: match.start()], text[match.end() :]
    return bool(_LENGTH_BEFORE.search(lead) or _LENGTH_BEHIND.match(rest) or _LENGTH_OF.search(lead))


def _kind(match: re.Match[str]) -> str:
    return match[0].split()[-1].casefold().rstrip("s")


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    word = fold(word)
    if word.startswith("half a"):
        return 6
    last = word.split()[-1]
    return _NUMBERS.get(last, 0)
