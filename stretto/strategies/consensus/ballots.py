"""What an answer votes for: a number, a choice, JSON or a short phrase, in normal form.

Answers that say the same in other words ("There are 24 legs." and "24") have the same vote, however they write
numbers (1,000 and 1000, 1/2 and 0.5). An answer that is too long to compare counts by itself, so no two of them agree
by accident. Units are not compared.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from stretto.language import counting
from stretto.language.folding import fold
from stretto.language.sentences import sentences
from stretto.language.telling import languages
from stretto.strategies.consensus.consensus_options import Compare
from stretto.strategies.quality.words import words_of

PHRASE_WORDS = 12  # a longer text is not a phrase
LONGEST = 80  # characters of a vote, as it is shown
_OPTION = re.compile(r"(?:^|[\s(])\(?([A-Ha-h])[).:]\s+(?=\S)", re.MULTILINE)
_LETTER = re.compile(r"(?:^|(?<=[\s(*]))\(?([A-H])(?=[).:,*]|\s*$)")
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_MARKUP = re.compile(r"[*_`$\\]|\[|\]")
_FEWEST_OPTIONS = 2


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote.

    Attributes:
        key: the same for answers that say the same.
        comparable: other answers can say the same; a longer text equals only itself.
    """

    key: str
    comparable: bool = True

    @property
    def shown(self) -> str:
        """The vote on one line, at most `LONGEST` characters."""
        line = " ".join(self.key.split())
        return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def of_value(value: Any) -> Ballot:
    """Return the vote of a JSON answer; order, white space, case, and ``1`` or ``1.0`` make no difference."""
    return Ballot(json.dumps(_alike(value), ensure_ascii=False, sort_keys=True, default=str))


@dataclass(frozen=True)
class VoteReader:
    """Reads votes from the answers to one question.

    Attributes:
        question: the question that was asked.
        language: of the question.
        compare: what is compared; "auto" finds out.
        choices: the possible answers, if the caller gives them.
    """

    question: str
    language: str = "en"
    compare: Compare = "auto"
    choices: Sequence[str] = ()

    def ballot(self, text: str) -> Ballot | None:
        """Return the vote of an answer; ``None`` if it contains nothing that was asked for."""
        if self.choices:
            return self._choice(text)
        if self.compare == "text":
            return _whole(text)
        if self.compare == "number":
            return self._number(text)
        if self.compare == "phrase":
            return self._phrase(text)
        return self._any(text)

    def _any(self, text: str) -> Ballot:
        if len(self._letters) >= _FEWEST_OPTIONS and (found := self._letter(text)):
            return found
        plain = _plain(text)
        for key, pattern in (("yes", wording().yes), ("no", wording().no)):
            if pattern.match(plain.lower()):
                return Ballot(key)
        if wording().asks_number.search(self.question.lower()) and (found := self._number(text)):
            return found
        short = _conclusion(text) or plain
        if len(words_of(short)) <= PHRASE_WORDS and "\n" not in short and (found := self._phrase(text)):
            return found
        return _whole(text)

    def _number(self, text: str) -> Ballot | None:
        """Return the number that a text states as its answer, or else the last number of its last sentence with one."""
        if (conclusion := _conclusion(text)) and (found := numbers_in(conclusion.rpartition("=")[2], self.language)):
            return Ballot(decimal_of(found[0]))
        for sentence in reversed(self._sentences(text)):
            if found := numbers_in(sentence.rpartition("=")[2], self.language):
                return Ballot(decimal_of(found[-1]))
        written = list(counting.numbers_in(fold(_plain(text))))
        return Ballot(str(written[0])) if len(written) == 1 else None  # "eight", but not "two hundred"

    def _phrase(self, text: str) -> Ballot | None:
        answer = (_conclusion(text) or _plain(text)).strip("\"'“”„«» ").lower()
        article = wording().article.match(answer)
        words = words_of(answer[article.end() :] if article else answer)
        if not words:
            return None
        question_words = set(words_of(self.question))
        small = languages().small.get(self.language, frozenset())
        own = [
            word for word in words if word in wording().negations or (word not in question_words and word not in small)
        ]
        # "The capital of France is Paris" says no more than "Paris". If all words are the question's, they count.
        telling = [word for word in own if word not in wording().negations]
        return Ballot(" ".join(own if telling else words))

    def _choice(self, text: str) -> Ballot | None:
        """Return the choice that the answer begins with, ends with, or names as the only one."""
        for part in (_conclusion(text), text):
            named = self._named(part)
            if len({choice for _, choice in named}) == 1 or (named and named[0][0] == 0):
                return Ballot(named[0][1])
        last = self._named(next(reversed(self._sentences(text)), ""))
        return Ballot(last[0][1]) if len({choice for _, choice in last}) == 1 else None

    def _sentences(self, text: str) -> list[str]:
        """Return the sentences of an answer; a vote is often on a separate line."""
        return [each for line in _plain(text).splitlines() for each in sentences(line, self.language)]

    def _named(self, text: str) -> list[tuple[int, str]]:
        """Return the choices in a text, with the number of words before each; "dark red" wins over "red"."""
        words, found, taken = words_of(text), list[tuple[int, str]](), set[int]()
        for choice in sorted(self.choices, key=len, reverse=True):
            wanted = words_of(choice)
            for at in range(len(words) - len(wanted) + 1) if wanted else ():
                if words[at : at + len(wanted)] == wanted and taken.isdisjoint(range(at, at + len(wanted))):
                    taken.update(range(at, at + len(wanted)))
                    found.append((at, choice))
        return sorted(found)

    @cached_property
    def _letters(self) -> dict[str, str]:
        """The options that the question lists by letter, from A on, with the text of each; empty without a list."""
        marks = list(_OPTION.finditer(self.question))
        if [mark[1].upper() for mark in marks] != [chr(ord("A") + place) for place in range(len(marks))]:
            return {}
        ends = [*(mark.start() for mark in marks), len(self.question)][1:]
        return {
            mark[1].upper(): self.question[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)
        }

    def _letter(self, text: str) -> Ballot | None:
        letters = self._letters
        for part in (_conclusion(text), text.strip()):
            named = [letter for letter in _LETTER.findall(part) if letter in letters]
            if len(set(named)) == 1 or (named and _LETTER.match(part.lstrip("*( "))):
                return Ballot(named[0])
        words = words_of(text)
        named = [letter for letter, option in letters.items() if words == words_of(option)]
        return Ballot(named[0]) if len(named) == 1 else None


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).strip()


def _conclusion(text: str) -> str:
    """Return the content of a box, or what follows the last "the answer is"; empty if there is neither."""
    if boxed := _BOXED.findall(text):
        return str(boxed[-1]).strip()
    plain = _plain(text)
    marks = list(wording().answer.finditer(plain))
    answer = plain[marks[-1].end() :].strip() if marks else ""
    return "" if "\n" in answer else answer


def _whole(text: str) -> Ballot:
    return Ballot(" ".join(words_of(text)), comparable=False)


def _alike(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case int() | float():
            return int(value) if abs(value) < 2**53 and value == int(value) else value
        case str():
            return " ".join(value.casefold().split())
        case dict():
            return {str(name): _alike(each) for name, each in value.items()}
        case list() | tuple():
            return [_alike(each) for each in value]
    return _alike(value.model_dump(mode="json")) if hasattr(value, "model_dump") else value


_ENDS = r"(?=\s*(?:[,.;:!–—\n-]|$))"  # "no" in "no one knows" is not an answer


@dataclass(frozen=True, slots=True)
class _Wording:
    """The patterns of all languages together, for text in lower case.

    Attributes:
        asks_number: searched for in a question.
        answer: introduces the answer at the end of a text.
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
def wording() -> _Wording:
    """Return the patterns, read and compiled once."""
    tables = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8")).values()

    def either(name: str) -> str:
        return "|".join(table[name] for table in tables)

    return _Wording(
        asks_number=re.compile(rf"\b(?:{either('number')})\b|\d\s*[-−+*/×x÷·^]\s*\d"),
        answer=re.compile(
            rf"\b(?:{either('answer')})(?:\s+(?:{either('is')})\b(?:\s*:)?|\s*[:=])\s*|####\s*", re.IGNORECASE
        ),
        yes=re.compile(rf"(?:{either('yes')}){_ENDS}"),
        no=re.compile(rf"(?:{either('no')}){_ENDS}"),
        article=re.compile(rf"(?:{either('article')})(?:\s+|(?<='))"),
        negations=frozenset(either("negation").split("|")),
    )


_COMMA_BEFORE_DECIMALS = frozenset({"de", "es", "fr", "id", "it", "nl", "pl", "pt", "ru", "tr", "uk", "vi"})
_MOST_NUMBERS = 200  # numbers of a text that are read, from its end
_LONGEST_NUMBER = 60  # characters of a number; the rest of a longer one is ignored
_GROUP = "[ ,.'’\u00a0\u202f]"
_GROUPING = re.compile(_GROUP)
_NUMBER = re.compile(
    rf"(?<![\w.,])(?P<sign>[-−–+]?)(?P<whole>\d{{1,3}}(?:(?P<mark>{_GROUP})\d{{3}}(?:(?P=mark)\d{{3}})*)?(?!\d)|\d+)"
    r"(?P<decimals>[.,]\d+)?(?:e(?P<power>[-+]?\d{1,2})(?!\d))?(?:\s?/\s?(?P<under>\d+)(?![\d/.,]*\d))?"
)


def numbers_in(text: str, language: str = "en") -> list[Fraction]:
    """Return the numbers of a text in order; ``language`` decides whether ``1.500`` is fifteen hundred."""
    comma = language in _COMMA_BEFORE_DECIMALS
    return [_number_of(found, comma=comma) for found in list(_NUMBER.finditer(text.lower()))[-_MOST_NUMBERS:]]


def decimal_of(number: Fraction) -> str:
    """Format a number as a decimal if it is finite, or else as a fraction."""
    if number.denominator == 1:
        return str(number.numerator)
    rest, digits = number.denominator, 0
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        digits = max(digits, power)
    if rest != 1:
        return str(number)
    whole = str(abs(number.numerator) * 10**digits // number.denominator).rjust(digits + 1, "0")
    return f"{'-' if number < 0 else ''}{whole[:-digits]}.{whole[-digits:]}"


def _number_of(found: re.Match[str], *, comma: bool) -> Fraction:
    whole, mark, decimals = found["whole"][:_LONGEST_NUMBER], found["mark"], (found["decimals"] or "")[:_LONGEST_NUMBER]
    if mark == ("," if comma else ".") and whole.count(mark) == 1 and not decimals:
        whole, decimals = whole.split(mark)[0], f".{whole.split(mark)[1]}"  # three decimals, not a thousand
    digits = _GROUPING.sub("", whole)
    number = Fraction(f"{digits}.{decimals[1:]}" if decimals else digits)
    if found["power"]:
        number *= Fraction(10) ** int(found["power"])
    if found["under"] and int(found["under"][:_LONGEST_NUMBER]):
        number /= int(found["under"][:_LONGEST_NUMBER])
    return -number if found["sign"] in ("-", "−", "–") else number
