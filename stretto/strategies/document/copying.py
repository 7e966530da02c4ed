"""Takes what a model wrote of a passage in other forms than a record: sentences, quotation lines, "none"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stretto.strategies.document.bearing import sentences
from stretto.strategies.document.library import Place
from stretto.strategies.document.run import Reading

__all__ = ["copied"]

_SHORTEST = 8  # characters of a piece of a sentence
_MOST_OF = 0.8  # of the words of a sentence
_WORD = re.compile(r"\w+")
_SAME = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})
_NOTHING = re.compile(
    r"\W*(?:none|nothing|no information|not mentioned|n/a|nichts|keine?|rien|aucune?|nada|ningun[oa]|niente|nessuno"
    r"|niets|geen|нет|无|没有|なし|없음)\W*",
    re.IGNORECASE,
)


def copied(text: str, place: Place, reading: Reading) -> dict[str, Any] | None:
    """A record of the sentences of a passage that a model copied, in lines, in quotation marks or as they are.

    A small model changes a word now and then: a sentence of its own that repeats most words of one of the passage
    stands for that one. ``None`` where it copied none and does not say that there is nothing either.
    """
    passage = reading.library.text(place)
    if _NOTHING.fullmatch(text[:80]):
        return {"no_information": True}
    said, pieces = _plain(text), [piece for each in _pieces(text) if len(piece := _plain(each)) >= _SHORTEST]
    near = [set(_WORD.findall(_plain(each))) for each in sentences(text)] if reading.plain else []
    found = []
    for sentence in sentences(passage):
        plain = _plain(sentence)
        if not plain or not reading.bearing.bears(sentence):
            continue
        words = set(_WORD.findall(plain))
        if (
            plain in said
            or any(piece in plain for piece in pieces)
            or any(len(words & each) >= _MOST_OF * len(words) for each in near)
        ):
            found.append(sentence)
    return {"evidence": found, "confidence": 3} if found else None


def _pieces(text: str) -> Iterator[str]:
    yield from re.findall(r'"([^"\n]{1,1000})"', text.translate(_SAME))
    yield from sentences(text)


def _plain(text: str) -> str:
    return " ".join(text.translate(_SAME).casefold().split()).strip(" .,;:!?\"'*-")
