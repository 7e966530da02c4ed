"""Terms that all pieces render alike, and the voice they share: from the caller, else agreed on in one short call."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stretto.strategies.structured.bare_json import json_in, read_json

SHARED = ("translate", "tone", "simplify", "expand")
"""Changes whose writers have to agree on words."""
TERMS_TOKENS = 700

MOST_TERMS = 12
_VOICE = ("voice", "headings", "instructions")  # what is agreed on besides terms
_LONGEST = 80  # characters of a term or a rendering
_SHORTEST = 3  # characters of a word that is looked for
_SHORT = 4  # characters of a word that takes no ending but a plural
_ENDING = 2  # characters of one
_STEM = 0.7  # of a word has to be there: the rest is its ending
_WORD = re.compile(r"\w+")


@dataclass
class Shared:
    """What all writers of a text are told.

    Attributes:
        given: terms of the caller, with their renderings.
        agreed: those that a call agreed on.
        voice: how readers are addressed, the tone, and the form of headings and of instructions, a line each.
    """

    given: Mapping[str, str]
    agreed: dict[str, str] = field(default_factory=dict)
    voice: str = ""

    def take(self, text: str, source: str) -> None:
        """Take what a call agreed on: terms that stand in the source, unless the caller has given them."""
        said = read_object(text)
        terms = said.get("terms")
        for term, becomes in terms.items() if isinstance(terms, dict) else ():
            if len(self.agreed) < MOST_TERMS and term not in self.given and term in source and _is_term(becomes):
                self.agreed[term] = _plain(becomes)
        named = {name: " ".join(how.split()) for name in _VOICE if isinstance(how := said.get(name), str)}
        self.voice = "\n".join(f"{name.capitalize()}: {how[: 4 * _LONGEST]}" for name, how in named.items() if how)

    @property
    def told(self) -> str:
        """It as a prompt tells it, between fences: a model took it from the text; empty without any."""
        terms = "\n".join(f"- {term}: {becomes}" for term, becomes in (self.agreed | {**self.given}).items())
        return "\n".join(filter(None, (terms, self.voice)))

    def missed(self, source: str, result: str) -> list[str]:
        """Terms of the caller that stand in a piece and are not rendered as they are to be."""
        return [
            f'"{term}" is to be rendered as "{becomes}"'
            for term, becomes in self.given.items()
            if _stands(source, term) and not _rendered(result, becomes)
        ]

    def counted(self, pieces: Iterable[tuple[str, str]]) -> tuple[Counter[str], Counter[str]]:
        """How many pieces render each term as agreed, and how many do not; ``pieces``: source and result of each."""
        right, wrong = Counter[str](), Counter[str]()
        for source, result in pieces:
            for term, becomes in (self.agreed | {**self.given}).items():
                if _stands(source, term):
                    (right if _rendered(result, becomes) else wrong)[term] += 1
        return right, wrong

    def uneven(self, pieces: Iterable[tuple[str, str]]) -> list[str]:
        """Terms that some pieces render as agreed and others do not."""
        right, wrong = self.counted(pieces)
        return [term for term in wrong if right[term]]


def read_object(text: str) -> dict[str, Any]:
    """The first JSON object of an answer; empty if it has none."""
    for found in json_in(text):
        value = read_json(found)
        if isinstance(value, dict):
            return value
    return {}


def _plain(becomes: str) -> str:
    """A rendering without the explanation in brackets that each piece would repeat."""
    return " ".join(becomes.split()).partition(" (")[0]


def _is_term(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST


def _stands(text: str, term: str) -> bool:
    """Whether a source has a term: its words behind each other, the last one with an ending if it is no short one."""
    if not any(map(str.isupper, term.upper())):  # scripts that have no blanks between words
        return _folded(term) in _folded(text)
    source, words = _WORD.findall(_folded(text)), _WORD.findall(_folded(term))
    *begins, last = words or [term]
    places = (place for place, word in enumerate(source) if word.startswith(last))
    return any(
        source[max(0, place - len(begins)) : place] == begins
        and (source[place] in (last, f"{last}s") or (len(last) > _SHORT and len(source[place]) <= len(last) + _ENDING))
        for place in places
    )


def _rendered(text: str, becomes: str) -> bool:
    """Whether a text has a rendering, in whatever inflection: the beginning of each of its words."""
    folded, words = _folded(text), _WORD.findall(_folded(becomes))
    words = [word for word in words if len(word) >= _SHORTEST] or words
    return all(word[: max(_SHORTEST, round(len(word) * _STEM))] in folded for word in words)


def _folded(text: str) -> str:
    """Without case and accents, which an inflection may change."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))
