"""The text that is most like the others, by the words that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stretto.strategies.quality.words import words_of

__all__ = ["likeness", "medoid"]

_LONGEST = 3  # words in a row that are compared
_MOST_WORDS = 4_000  # of a text that are read


def medoid(texts: Sequence[str]) -> int:
    """The index of the text with the highest likeness to all others together; of equals, the first."""
    grams = [_grams(text) for text in texts]
    likenesses = [sum(_shared(one, other) for other in grams if other is not one) for one in grams]
    return max(range(len(texts)), key=lambda index: (likenesses[index], -index))


def likeness(one: str, other: str) -> float:
    """How much two texts share, 0 to 1: the Jaccard index of their one to three words in a row, counted."""
    return _shared(_grams(one), _grams(other))


def _grams(text: str) -> Counter[tuple[str, ...]]:
    words = words_of(text)[:_MOST_WORDS]
    return Counter(
        tuple(words[at : at + length]) for length in range(1, _LONGEST + 1) for at in range(len(words) - length + 1)
    )


def _shared(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> float:
    union = (one | other).total()
    return (one & other).total() / union if union else 0.0
