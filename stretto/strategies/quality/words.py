"""Texts as words, without case, punctuation and markup, and their similarity by shared runs of words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from stretto.language.folding import UNSPACED

ENDS = frozenset(".!?:;…\n。！？：；")
"""Characters that end a sentence when they follow a word."""

LONGEST = 32
"""Characters of a word. A longer one is split, so that a loop without spaces is detected while it streams."""

_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]{{1,{LONGEST}}}")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; in scripts without spaces, its characters."""
    return _WORD.findall(text.casefold())


def letters_of(text: str) -> str:
    """Return the letters and digits of a text in lower case, with nothing between them."""
    return "".join(character for character in text.casefold() if character.isalnum())


def sentences_of(text: str) -> list[list[str]]:
    """Return the words of each sentence or line of a text; empty ones are left out."""
    found: list[list[str]] = [[]]
    text, at = text.casefold(), 0
    for match in _WORD.finditer(text):
        if not ENDS.isdisjoint(text[at : match.start()]):
            found.append([])
        found[-1].append(match[0])
        at = match.end()
    return [sentence for sentence in found if sentence]


SHORTEST = 12  # words; the overlap of shorter texts is not measured
_IN_A_ROW = 3  # words in a row that are compared
_MOST_WORDS = 4_000  # of a text that are read


def runs(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """Return every run of ``length`` words."""
    return [tuple(words[at : at + length]) for at in range(len(words) - length + 1)]


def medoid(texts: Sequence[str]) -> int:
    """Return the index of the text that is most similar to all others together; of equals, the first.

    Similarity is the Jaccard index over the counts of their runs of one to three words.
    """
    grams = [_grams(text) for text in texts]
    likenesses = [sum(_shared(one, other) for other in grams if other is not one) for one in grams]
    return max(range(len(texts)), key=lambda index: (likenesses[index], -index))


def overlap(text: str, other: str, question: str = "") -> float:
    """Return the share of three-word runs that the shorter text has in common with the longer one, 0 to 1.

    Runs of the question do not count: "To use less water at home, ..." can begin each point.
    """
    of_question, mine, theirs = (set(runs(words_of(each), _IN_A_ROW)) for each in (question, text, other))
    least = min(len(mine - of_question), len(theirs - of_question))
    return len((mine & theirs) - of_question) / least if least >= SHORTEST - _IN_A_ROW + 1 else 0.0


def _grams(text: str) -> Counter[tuple[str, ...]]:
    words = words_of(text)[:_MOST_WORDS]
    return Counter(run for length in range(1, _IN_A_ROW + 1) for run in runs(words, length))


def _shared(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> float:
    union = (one | other).total()
    return (one & other).total() / union if union else 0.0
