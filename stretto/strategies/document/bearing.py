"""Tells which sentences share the question's words, for models that cannot tell what bears on a question.

A small model copies a sentence of any passage that it is shown, whether it answers the question or not. So a sentence
counts only if it holds every name and number of the question, and more than half of its words, the rare ones counting
for more (after the inverse document frequency of Spärck Jones, 1972).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from stretto.language.telling import languages

__all__ = ["Bearing", "sentences"]

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*[\"'”’»)]*")
_LONGEST = 1_000  # characters of a sentence that may be a quotation
_WORD = re.compile(r"\w{2,}")
_PAIR = re.compile(r"(?=([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}))")  # of letters, in scripts of words as short
_STEM = 0.7  # of a word: "costs" and "cost" begin alike
_SHORTEST_STEM = 3
_MOST = 24  # words of a question
_SHARE = 0.5
_SHARE_OF_PAIRS = 0.3  # pairs of letters cross the borders of words
_UNKNOWN = 1.5  # a word that no passage holds weighs so many times as much as one that a single passage holds
# Words of questions that say nothing of their subject, beside the small words of all languages.
_ASKING = frozenset(
    {"did", "does", "had", "has", "have", "it", "its", "many", "much", "there", "was", "were", "when", "where", "which"}
    | {
        "who",
        "whom",
        "whose",
        "will",
        "by",
        "at",
        "be",
        "been",
        "hat",
        "wann",
        "wer",
        "wessen",
        "wem",
        "welche",
        "welcher",
    }
    | {
        "welches",
        "wird",
        "wurde",
        "quand",
        "où",
        "combien",
        "cuándo",
        "dónde",
        "quién",
        "cuánto",
        "dove",
        "chi",
        "quanto",
    }
    | {"quando", "wanneer", "waar", "hoeveel", "onde", "quem", "tell", "please", "say", "says", "said"}
)


class Bearing:
    """The words of a question, and how telling each is among these passages."""

    def __init__(self, question: str, passages: Sequence[str]) -> None:
        words = [word for word in dict.fromkeys(_WORD.findall(question)) if not _PAIR.search(word)]
        telling = [word for word in words if word.casefold() not in _small()][:_MOST]
        first = next(iter(_WORD.findall(question)), "")
        self._names = {_stem(word) for word in telling if (word[0].isupper() and word != first) or word.isdigit()}
        pairs = list(dict.fromkeys(_PAIR.findall(question)))[:_MOST]
        self._share = _SHARE_OF_PAIRS if pairs and not telling else _SHARE
        held = [passage.casefold() for passage in passages]
        often = {term: sum(term in passage for passage in held) for term in [*map(_stem, telling), *pairs]}
        self._weights = {
            term: math.log(1 + len(held) / max(1, times)) * (1 if times else _UNKNOWN) for term, times in often.items()
        }
        self._total = sum(self._weights.values())

    def share(self, sentence: str) -> float:
        """How much of the question's words a sentence holds, 0 to 1; 0 without one of its names and numbers."""
        text = sentence.casefold()
        if not self._total or any(name not in text for name in self._names):
            return 0.0
        return sum(weight for term, weight in self._weights.items() if term in text) / self._total

    def bears(self, sentence: str) -> bool:
        """Whether a sentence holds so much of the question's words that it may answer it."""
        return self.share(sentence) > self._share


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without white space around them."""
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip()
        if len(sentence) <= _LONGEST and any(character.isalnum() for character in sentence):
            yield sentence


def _stem(word: str) -> str:
    word = word.casefold()
    if word.isdigit():
        return word
    return word[: max(_SHORTEST_STEM, math.ceil(_STEM * len(word)))]


def _small() -> frozenset[str]:
    return _ASKING.union(*languages().small.values())
