"""Takes what a model wrote of a passage in other forms than a record: sentences, quotation lines, "none"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stretto.language.telling import languages
from stretto.strategies.document.citations.typography import plain
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.reading.bearing import quotable, statements

__all__ = ["copied"]

_SHORTEST = 8  # characters of a piece of a sentence
_MOST_OF = 0.8  # of the words of a sentence
_MOST_TOLD = 0.6  # of the words that a model's own sentence has beyond the question's
_WORD = re.compile(r"\w+")
_NOTHING = re.compile(
    r"\W*(?:none|nothing|no information|not mentioned|n/a|nichts|keine?|rien|aucune?|nada|ningun[oa]|niente|nessuno"
    r"|niets|geen|нет|无|没有|なし|없음)\W*",
    re.IGNORECASE,
)


def copied(text: str, place: Place, reading: DocumentRun) -> dict[str, Any] | None:
    """A record of the sentences of a passage that a model copied, in lines, in quotation marks or as they are.

    A small model changes a word now and then, or says part of a sentence in its own words. What repeats most words of
    a sentence of the passage, or has most of what it tells beyond the question from it and every figure, stands for
    that one. ``None`` where it copied none and does not say that there is nothing either.
    """
    if _NOTHING.fullmatch(text[:80]):
        return {"no_information": True}
    said, pieces = _plain(text), [piece for each in _pieces(text) if len(piece := _plain(each)) >= _SHORTEST]
    near = [set(_WORD.findall(_plain(each))) for each in quotable(text)] if reading.plain else []
    known = set(_WORD.findall(_plain(reading.request.question))).union(*languages().small.values())
    bearing, found, beside = reading.bearing, list[str](), list[str]()
    for sentence, around in statements(reading.library, place):
        said_there = _plain(sentence)
        words = set(_WORD.findall(said_there))
        if said_there and (
            said_there in said
            or any(piece in said_there for piece in pieces)
            or any(len(words & each) >= _MOST_OF * len(words) or _is_from(each - known, words) for each in near)
        ):
            if bearing.bears(sentence):
                found.append(sentence)
            elif bearing.bears_among(sentence, around):
                beside.append(sentence)
    found = found or beside
    return {"evidence": found, "confidence": 3} if found else None


def _is_from(told: set[str], words: set[str]) -> bool:
    """Whether most of what was told, and each figure in it, is from a sentence with these words."""
    figures = {word for word in told if any(character.isdigit() for character in word)}
    return bool(told) and figures <= words and len(told & words) >= _MOST_TOLD * len(told)


def _pieces(text: str) -> Iterator[str]:
    yield from re.findall(r'"([^"]{1,1000})"', plain(text))
    yield from quotable(text)


def _plain(text: str) -> str:
    return plain(text).casefold().strip(" .,;:!?\"'*-。，、！？")
