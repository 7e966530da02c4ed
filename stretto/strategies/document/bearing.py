"""Finds the sentences that share the question's words, for models that cannot judge relevance themselves.

A small model copies a sentence from any passage it is shown, whether or not it answers the question. So a sentence
counts only if it contains every name and number of the question and more than half of its words, with rare words
weighted more (after the inverse document frequency of Spärck Jones, 1972).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from stretto.language.sentences import sentence_spans, sentences
from stretto.language.telling import languages
from stretto.language.words import words
from stretto.strategies.document.library import Library, Place
from stretto.strategies.document.quoting import plain
from stretto.values.citation import Evidence

_LONGEST = 1_000  # characters of a sentence that may be a quotation
_WORD = re.compile(r"\w{2,}")
_PAIR = re.compile(r"(?=([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}))")  # of letters, in scripts of short words
_STEM = 0.7  # share of a word that has to match: "costs" and "cost" begin alike
_SHORTEST_STEM = 3
_MOST = 24  # words of a question
_SHARE = 0.5
_SHARE_OF_PAIRS = 0.3  # pairs of letters also span word boundaries
_UNKNOWN = 1.5  # weight of a word in no passage, relative to one in a single passage
# Question words that say nothing about the subject, in addition to the stop words of all languages.
_ASKING = frozenset(
    """
    did does had has have it its many much there was were when where which who whom whose will by at be been tell please
    say says said hat wann wer wessen wem welche welcher welches wird wurde quand où combien cuándo dónde quién cuánto
    dove chi quanto quando wanneer waar hoeveel onde quem
    """.split()  # noqa: SIM905 - a list with one word per line is no easier to read
)

_WIDE, _WIDE_OF_PAIRS = 0.6, 0.4  # the same with its neighbours, or without the figure asked for
_AROUND, _WITHOUT_FIGURE = 0.9, 0.8
_ACRONYM = re.compile(r"[A-Z]{3,6}")
_DATE_ASKED = re.compile(
    r"\b(?:dates?|when|(?:what|which) (?:day|year)|datum|wann|quand|fecha|cuándo|quando|data|wanneer|когда|дата"
    r"|tarih\w*|ne zaman)\b"
    "|いつ|何[年月日]|日付|什么时候|何时|哪[天年]|日期|언제|날짜|متى|تاريخ|कब|तारीख",
    re.IGNORECASE,
)
_FIGURE_ASKED = re.compile(
    rf"{_DATE_ASKED.pattern}|\b(?:how (?:many|much|long|old|far|high|large|big)"
    r"|(?:what|which) (?:number|amount|percentage|version)"
    r"|wie (?:viele?|lange|hoch|alt|weit|groß)|wieviele?|combien|cuánt\w+|quant[oiae]s?|hoeveel|hoe (?:lang|hoog|oud)"
    r"|сколько|kaç|ne kadar)\b|多少|几|多久|いくつ|いくら|どのくらい|何[人個枚回件歳円]|얼마|몇|كم|कितन",
    re.IGNORECASE,
)
_MONTHS = (
    "jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|déc|fév|avr|août|ene|abr|ago|dic|gen|mag|giu|lug|set"
    "|ott|mrt|mei|янв|фев|мар|апр|мая|май|июн|июл|авг|сен|окт|ноя|дек|oca|şub|nis|haz|tem|ağu|eyl|eki|kas|ara"
)
_DATE = re.compile(
    r"\b(?:1[5-9]|20|21)\d\d\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|\.|er|º)? (?:(?:of|de|di) )?(?:{_MONTHS})"
    rf"|\b(?:{_MONTHS})[^\W\d_]*\.? \d{{1,2}}\b|\d{{1,4}} ?[年月日년월일]"
)
_DATE_WORDS = frozenset({"dat", "date", "datu", "datum", "fech", "дат", "日期", "日付", "날짜", "tari"})
_FIGURE = re.compile(r"\d|[一二三四五六七八九十百千万]")
_QUESTION_WORDS = re.compile(  # the same in scripts without spaces, and in Korean
    "请问|是?多少|什么时候|是?什么|哪[里儿个些年位]?|是?谁|何时|怎么样?|如何|为什么|几[个年月天]?|[吗呢]|いくら|どこ|いつ|誰|だれ|どの|"
    "どう|なぜ|何[時年人日月]?|(?:です|ます|でしょう|ました)か|얼마|무엇|어디|언제|누구|몇|입니까|인가요|습니까"
)


class Bearing:
    """The words of a question, weighted by how rare each is in these passages."""

    def __init__(self, question: str, passages: Sequence[str]) -> None:
        self._asks_figure, self._asks_date = bool(_FIGURE_ASKED.search(question)), bool(_DATE_ASKED.search(question))
        question = _QUESTION_WORDS.sub(" ", question)
        spoken = [word for word in dict.fromkeys(_WORD.findall(question)) if not _PAIR.search(word)]
        small = _ASKING.union(*languages().small.values())
        telling = [word for word in spoken if word.casefold() not in small][:_MOST]
        first = next(iter(_WORD.findall(question)), "")
        self._names = {_stem(word) for word in telling if (word[0].isupper() and word != first) or word.isdigit()}
        pairs = list(dict.fromkeys(_PAIR.findall(question)))[:_MOST]
        of_pairs = bool(pairs) and not telling
        self._share, self._wide = (_SHARE_OF_PAIRS, _WIDE_OF_PAIRS) if of_pairs else (_SHARE, _WIDE)
        texts = [plain(passage).casefold() for passage in passages]
        self._spelled = {
            _stem(word): re.compile(r"\b" + r"[\w.-]{0,40}\s{1,9}".join(word.casefold()))
            for word in telling
            if _ACRONYM.fullmatch(word)
        }
        terms = list(dict.fromkeys([*map(_stem, telling), *pairs]))
        often = {term: sum(self._occurs(term, passage) for passage in texts) for term in terms}
        self._weights = {
            term: math.log(1 + len(texts) / max(1, times)) * (1 if times else _UNKNOWN) for term, times in often.items()
        }
        self._total = sum(self._weights.values())

    def share(self, sentence: str, around: str = "") -> float:
        """Return the weighted share of the question's words in a sentence, 0 to 1; 0 if it lacks a name or number.

        ``around`` is its heading and its neighbours, whose words count as well.
        """
        text = plain(f"{sentence}\n{around}").casefold()
        if not self._total or not all(self._occurs(name, text) for name in self._names):
            return 0.0
        return sum(weight for term, weight in self._weights.items() if self._occurs(term, text)) / self._total

    def bears(self, sentence: str) -> bool:
        """Return whether a sentence shares enough of the question's words to be a possible answer.

        If a figure is asked for, a sentence without one has to share more.
        """
        return self.share(sentence) > (self._wide if self._lacks_figure(sentence) else self._share)

    def bears_among(self, sentence: str, around: str) -> bool:
        """Return whether a sentence does so together with its surroundings, and alone has a word of the question."""
        if self._lacks_figure(sentence):
            return False
        text = plain(sentence).casefold()
        least = self._share if self._names else self._wide  # with a name or number of the question, fewer words suffice
        return any(self._occurs(term, text) for term in self._names or self._weights) and (
            self.share(sentence, around) > least
        )

    def fit(self, sentence: str, around: str) -> float:
        """Return how well a relevant sentence fits the question, to choose between two."""
        fit = max(self.share(sentence), _AROUND * self.share(sentence, around))
        return fit * _WITHOUT_FIGURE if self._lacks_figure(sentence) else fit

    def _lacks_figure(self, sentence: str) -> bool:
        if self._asks_date:
            return _DATE.search(plain(sentence).casefold()) is None
        if not self._asks_figure or _FIGURE.search(sentence):
            return False
        return not any(word in words().numbers for word in _WORD.findall(sentence.casefold()))

    def _occurs(self, term: str, text: str) -> bool:
        if self._asks_date and term in _DATE_WORDS:
            return _DATE.search(text) is not None
        if term in self._spelled and self._spelled[term].search(text):  # "Affero General Public License" for "AGPL"
            return True
        return term in text


def quotable(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are short enough to quote."""
    return filter(is_quotable, sentences(text))


def is_quotable(sentence: str) -> bool:
    """Return whether a sentence is short enough to quote, and says something."""
    return len(sentence) <= _LONGEST and any(character.isalnum() for character in sentence)


def statements(library: Library, place: Place) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a passage that can be quoted, each with its heading and neighbours."""
    text, start, document = library.text(place), place.chunk.start, place.document
    quotes = [(first, text[first:last]) for first, last in sentence_spans(text) if is_quotable(text[first:last])]
    head = _head(library, document, start)
    for at, (first, sentence) in enumerate(quotes):
        if columns := library.header(document, start + first):  # other rows of a table say nothing about this one
            yield sentence, "\n".join([*head, columns])
        else:
            near = (each for _, each in (*quotes[max(0, at - 1) : at], *quotes[at + 1 : at + 2]))
            yield sentence, "\n".join([*head, *near])


def around(library: Library, evidence: Evidence) -> str:
    """Return the heading and the neighbouring sentences of a quotation."""
    if columns := library.header(evidence.document, evidence.start):
        return "\n".join([*_head(library, evidence.document, evidence.start), columns])
    text = library.documents[evidence.document].text
    before, after = text[max(0, evidence.start - _LONGEST) : evidence.start], text[evidence.end :][:_LONGEST]
    near = [*list(quotable(before))[-1:], *islice(quotable(after), 1)]
    return "\n".join([*_head(library, evidence.document, evidence.start), *near])


def _head(library: Library, document: int, offset: int) -> list[str]:
    heading = library.documents[document].heading(offset)
    return [library.documents[document].title, heading.text if heading else ""]


def _stem(word: str) -> str:
    word = word.casefold()
    if word.isdigit():
        return word
    return word[: max(_SHORTEST_STEM, math.ceil(_STEM * len(word)))]
