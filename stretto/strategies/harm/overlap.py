"""Measures how much of a text another one says in the same words."""

from __future__ import annotations

from collections.abc import Iterable

from stretto.strategies.harm.words import words_of

SAME = 0.5  # share of three words in a row that the shorter text has in common with the other
SHORTEST = 12  # words; shorter texts are not compared
REPEATED = 5  # words; a text of a weak model that stands in another one word for word may be as short
_ROW = 3


def overlap(text: str, other: str, question: str = "") -> float:
    """The share of runs of three words that the shorter text has in common with the longer one, 0 to 1.

    Runs of the question do not count: "To use less water at home, ..." may begin each point.
    """
    asked = _runs(question)
    mine, theirs = _runs(text) - asked, _runs(other) - asked
    least = min(len(mine), len(theirs))
    return len(mine & theirs) / least if least >= SHORTEST - _ROW + 1 else 0.0


def said_before(text: str, others: Iterable[str], question: str = "") -> bool:
    """Whether a text says what one of the others says, the words of the question apart."""
    return any(overlap(text, other, question) >= SAME for other in others)


def stands_in(text: str, others: Iterable[str]) -> bool:
    """Whether one of the others has this text in it, word for word."""
    words = words_of(text)
    return len(words) >= REPEATED and any(f" {' '.join(words)} " in f" {' '.join(words_of(each))} " for each in others)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = words_of(text)
    return frozenset(zip(words, words[1:], words[2:], strict=False))
