"""Count the points that a text asks for, in any language of ``words.toml``.

A number counts if it is followed by a word for points ("five good tips", "пять советов", "五个建议"), or, in Japanese
and Korean, preceded by one ("ヒントを5つ"). Native digits are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stretto.language.folding import UNSPACED, fold
from stretto.language.words import words

MOST_BETWEEN = 3  # words between a number and the word for points
MOST_ASKED = 30  # points; a larger number does not ask for a list
LONGEST_NUMBER = 3  # digits; longer ones are years

_MARKS = "\u0300-\u036f\u0900-\u0903\u093a-\u094f\u0962\u0963"  # parts of a word that \w leaves out
_TOKEN = re.compile(rf"[\w{_MARKS}'’-]+")
_TOKEN_AMONG_UNSPACED = re.compile(rf"(?:(?![{UNSPACED}\uac00-\ud7af])[\w{_MARKS}'’-])+")
_ANY_UNSPACED = re.compile(rf"[{UNSPACED}\uac00-\ud7af]")
_TOP = re.compile(r"(?:top|топ|トップ)[- ]?(\d{1,3})(?!\d)")
_SENTENCE_END = re.compile(r"[.!?\n।]")
_CLAUSE_ENDS = tuple(".!?:;।؛")
_NOT_BETWEEN = re.compile(r"to|or|and|of|out|bis|oder|und|à|ou|et|o|y|e|и|или|до|و|او|और|या|ve|veya|ile")
_FOR_EACH = re.compile(
    r"(?: (?:for|on|about|of|from|in|to|against))? (?:each|every|both|per|apiece|für jede[nrs]?|pour chaque|para cada"
    r"|per ogni|voor elke?|для кажд\w*|لكل)(?!\w)(?! (?:with|in|one|about|having|explained|under)\b)"
)
_EACH_BEFORE = re.compile(r"(?:[每各]|\bher |(?<!\w)हर |(?<!\w)प्रत्येक )[^.!?,，。、؟।\n]*$")
_HAN = {"〇": 0, "零": 0, "两": 2, "兩": 2} | {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}


@dataclass(frozen=True, slots=True)
class Count:
    """A number of points in a text: value, position, and language (empty if written in digits)."""

    value: int
    start: int
    end: int
    language: str


def points_counted(text: str) -> list[Count]:
    """Return every number of points in a folded text (`fold`), in arbitrary order."""
    known = words()
    found = []
    tokens = _tokens(text)
    for place, token in enumerate(tokens):
        word = token[0]
        if word not in known.lengths and not word.isdecimal():
            continue
        for count, end in _numbers_at(text, tokens, place):
            noun = _points_after(text, tokens, end, count.language)
            if noun is not None:
                found.append(Count(count.value, count.start, tokens[noun].end(), count.language))
                break
    if _has_unspaced(text):
        for pattern in known.unspaced:
            for match in pattern.finditer(text):
                named = match.groupdict()
                group = "number" if named["number"] else "bare"
                value = number_value(named[group])
                if value > 1 and not text[: match.start(group)].endswith(known.unlike_unspaced):
                    found.append(Count(value, match.start(), match.end(), "unspaced"))
    return found


@dataclass(frozen=True, slots=True)
class Points:
    """How many points a question asks the answer to have.

    Attributes:
        wanted: the first number named ("15 tips", "the top 20", "十二个理由"); 0 if there is none.
        asked: the number, 3 to 30, that the question clearly asks for; ``None`` if it names none. Ranges, lower bounds,
            numbers for each of several things and adjacent numbers are left to the outline.
    """

    wanted: int
    asked: int | None


def points_in(text: str) -> Points:
    """Return the points that a text asks for. Any text is accepted."""
    text = fold(text)
    counts = points_counted(text)
    return Points(_wanted(text, counts), _asked(text, counts))


def _wanted(text: str, counts: list[Count]) -> int:
    if counts:
        return min(counts, key=lambda count: count.start).value
    top = _TOP.search(text)
    return int(top[1]) if top else 0


def _asked(text: str, counts: list[Count]) -> int | None:
    if len(counts) != 1 or not 3 <= counts[0].value <= MOST_ASKED:
        return None
    (count,) = counts
    distributed = _FOR_EACH.match(text, count.end) or _EACH_BEFORE.search(text[: count.start])
    return count.value if not distributed and _is_asked(text, count) else None


def numbers_in(text: str) -> Iterator[int]:
    """Yield the numbers of a folded text, words and figures, in order, except words with another common meaning.

    In a script without spaces, a number needs a counter word after it.
    """
    known = words()
    tokens = _tokens(text)
    place = 0
    while place < len(tokens):
        count, after = next(_numbers_at(text, tokens, place), (None, place + 1))
        if count is not None and text[count.start : count.end] not in known.homographs:
            yield count.value
        place = after
    if _has_unspaced(text):
        yield from (number_value(found[1]) for found in known.unspaced_items.finditer(text) if not found[1].isdigit())


def _tokens(text: str) -> list[re.Match[str]]:
    return list((_TOKEN_AMONG_UNSPACED if _has_unspaced(text) else _TOKEN).finditer(text))


def _has_unspaced(text: str) -> bool:
    return not text.isascii() and _ANY_UNSPACED.search(text) is not None


def _numbers_at(text: str, tokens: list[re.Match[str]], place: int) -> Iterator[tuple[Count, int]]:
    """Yield the numbers that begin with a token, longest first, each with the index of the next token."""
    numbers, token = words().numbers, tokens[place]
    for length in words().lengths.get(token[0], ()):
        several = tokens[place : place + length]
        if len(several) == length:
            name = text[token.start() : several[-1].end()]
            for language, value in numbers.get(name, {}).items():
                yield Count(value, token.start(), several[-1].end(), language), place + length
    if token[0].isdecimal() and len(token[0]) <= LONGEST_NUMBER:
        yield Count(int(token[0]), token.start(), token.end(), ""), place + 1


def _points_after(text: str, tokens: list[re.Match[str]], place: int, language: str) -> int | None:
    """Return the index of the token after a number that means points, in the language of the number."""
    known = words()
    direct = tokens[place - 1][0] in known.homographs
    for at in range(place, min(place + 1 + (0 if direct else MOST_BETWEEN), len(tokens))):
        if text[tokens[at - 1].end() : tokens[at].start()] != " ":
            return None
        word = tokens[at][0]
        if word == "of" and at == place and at + 1 < len(tokens) and tokens[at + 1][0] in {"the", "your"}:
            continue
        languages = known.points.get(word) or _by_beginning(word)
        if languages and (not language or language in languages):
            return at
        if _NOT_BETWEEN.fullmatch(word) or word[0].isdecimal():
            return None
    return None


def _by_beginning(word: str) -> frozenset[str]:
    beginnings = words().beginnings
    for length in range(len(word), 2, -1):
        if found := beginnings.get(word[:length]):
            return found
    return frozenset()


def _is_asked(text: str, count: Count) -> bool:
    """Return whether the question asks for that many: the number follows "give me", or starts a clause."""
    if count.language == "unspaced":
        return True
    known = words()
    before = list(_TOKEN.finditer(text, 0, count.start))
    while before and before[-1][0] in known.between and text[before[-1].end() : count.start].strip() == "":
        count = Count(count.value, before.pop().start(), count.end, count.language)
    if _is_clause_end(text[: count.start]):
        return True
    if before and before[-1][0] in known.ask and text[before[-1].end() : count.start] == " ":
        return True
    return _asked_after(text, count, before)


def _is_clause_end(text: str) -> bool:
    stripped = text.rstrip()
    return not stripped or stripped.endswith(_CLAUSE_ENDS) or "\n" in text[len(stripped) :]


def _asked_after(text: str, count: Count, before: list[re.Match[str]]) -> bool:
    """Return whether, in a verb-final language, the sentence then asks for the points or ends with them."""
    known = words()
    noun = next(reversed(list(_TOKEN.finditer(text, count.start, count.end))))[0]
    languages = known.points.get(noun) or _by_beginning(noun)
    if not languages & known.verb_last or (before and before[-1][0] in known.pointing):
        return False
    rest = _SENTENCE_END.split(text[count.end :], maxsplit=1)[0]
    return rest.lstrip()[:1] in ("", ",") or any(token[0] in known.ask_behind for token in _TOKEN.finditer(rest))


def number_value(number: str) -> int:
    """Return the value of a number in figures, in Han characters or in Korean."""
    if number.isdecimal():
        return int(number)
    if (native := words().native.get(number)) is not None:
        return native
    hundreds, _, rest = number.rpartition("百")
    tens, ten, ones = rest.rpartition("十")
    total = 100 * (_HAN.get(hundreds[-1:], 1) if hundreds or "百" in number else 0)
    if ten:
        total += 10 * (_HAN.get(tens[-1:], 1))
    return total + _HAN.get(ones[-1:], 0)
