"""Finds the beginning of a part that announces an answer instead of giving it: "The answer to the question is that"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stretto.language.echoes import echoes
from stretto.language.folding import UNSPACED
from stretto.strategies.harm.titles import content_of
from stretto.strategies.harm.words import words_of

LONG = 8  # words; of a shorter part, each may be what it has to say

_BEHIND = re.compile(r"[\s\"“”„«»'’*_:,.–—-]*")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


class Openings:
    """The openings that a part may have, in all languages.

    Args:
        question: that may be repeated in one.
    """

    def __init__(self, question: str) -> None:
        self._every = frozenset(_openings(tuple(words_of(question))))

    def without(self, body: str) -> str | None:
        """The text after an opening, the whole text if it has none, ``None`` while that is undecided."""
        words: list[str] = []
        possible, end = self._every, None
        for word in _WORD.finditer(body):
            words.append(word[0].casefold())
            at = len(words) - 1
            if word.end() == len(body):  # it may go on
                if any(len(each) > at and each[at].startswith(words[at]) for each in possible):
                    return None
                break
            possible = frozenset(each for each in possible if len(each) > at and each[at] == words[at])
            if not possible:
                break
            if tuple(words) in possible:
                end = word.end()
        else:
            if possible:
                return None
        if end is None:
            return body
        behind = _BEHIND.match(body, end)
        rest = body[behind.end() :] if behind else body[end:]
        return rest[:1].upper() + rest[1:] if rest else None


def _openings(question: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    known = echoes()
    yield from known.announcing
    for opening in known.openings:
        for between in dict.fromkeys(((), question)):
            for copula in known.copulas:
                yield (*opening, *between, *copula)


def adds_nothing(text: str, title: str, question: str) -> bool:
    """Whether a part has no word beside those of its title, of the question and of such openings.

    Of a longer part only the words count that tell something: "To use less water, consider using a dishwasher".
    """
    words = words_of(text)
    known = [*words_of(title), *words_of(question), *(word for each in _openings(()) for word in each)]
    return set(known).issuperset(words) or (len(words) >= LONG and content_of(words) <= content_of(known))
