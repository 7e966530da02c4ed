"""Terms that all pieces render alike, and their common voice: from the caller, else from one short call."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stretto.strategies.structured.bare_json import json_in, read_json

SHARED = ("translate", "tone", "simplify", "expand")
"""Changes whose writers have to agree on wording."""
TERMS_TOKENS = 700

MOST_TERMS = 12
_VOICE = ("voice", "headings", "instructions")  # what is agreed on besides terms
_LONGEST = 80  # characters of a term or a rendering
_SHORTEST = 3  # characters of a word that is searched for
_SHORT = 4  # characters of a word whose only ending can be a plural
_ENDING = 2  # characters of an ending
_STEM = 0.7  # share of a word that has to occur: the rest is its ending
_WORD = re.compile(r"\w+")


@dataclass
class Shared:
    """What the writers of all pieces have in common.

    Attributes:
        given: terms from the caller, with their renderings.
        agreed: terms that a call agreed on.
        voice: how readers are addressed, the tone, and the form of headings and instructions, one line each.
    """

    given: Mapping[str, str]
    agreed: dict[str, str] = field(default_factory=dict)
    voice: str = ""

    def take(self, text: str, source: str) -> None:
        """Take what a call agreed on: terms that occur in the source, except those given by the caller."""
        found = read_object(text)
        terms = found.get("terms")
        for term, becomes in terms.items() if isinstance(terms, dict) else ():
            if len(self.agreed) < MOST_TERMS and term not in self.given and term in source and _is_term(becomes):
                # Without an explanation in brackets, which each piece would repeat.
                self.agreed[term] = " ".join(becomes.split()).partition(" (")[0]
        named = {name: " ".join(how.split()) for name in _VOICE if isinstance(how := found.get(name), str)}
        self.voice = "\n".join(f"{name.capitalize()}: {how[: 4 * _LONGEST]}" for name, how in named.items() if how)

    @property
    def as_text(self) -> str:
        """Terms and voice as text, which prompts fence because a model took it from the source; may be empty."""
        terms = "\n".join(f"- {term}: {becomes}" for term, becomes in (self.agreed | {**self.given}).items())
        return "\n".join(filter(None, (terms, self.voice)))

    def missed(self, source: str, result: str) -> list[str]:
        """Return the caller's terms that occur in a piece and are not rendered as requested."""
        return [
            f'"{term}" is to be rendered as "{becomes}"'
            for term, becomes in self.given.items()
            if _occurs(source, term) and not _rendered(result, becomes)
        ]

    def counted(self, pieces: Iterable[tuple[str, str]]) -> tuple[Counter[str], Counter[str]]:
        """Count per term the pieces that render it as agreed, and those that do not; ``pieces``: (source, result)."""
        right, wrong = Counter[str](), Counter[str]()
        for source, result in pieces:
            for term, becomes in (self.agreed | {**self.given}).items():
                if _occurs(source, term):
                    (right if _rendered(result, becomes) else wrong)[term] += 1
        return right, wrong

    def uneven(self, pieces: Iterable[tuple[str, str]]) -> list[str]:
        """Return the terms that some pieces render as agreed and others do not."""
        right, wrong = self.counted(pieces)
        return [term for term in wrong if right[term]]


def read_object(text: str) -> dict[str, Any]:
    """Return the first JSON object in an answer; empty if there is none."""
    for found in json_in(text):
        value = read_json(found)
        if isinstance(value, dict):
            return value
    return {}


def _is_term(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST


def _occurs(text: str, term: str) -> bool:
    """Return whether a source contains a term: its words in sequence, the last with an ending unless it is short."""
    if not any(map(str.isupper, term.upper())):  # scripts without spaces between words
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
    """Return whether a text contains a rendering in any inflection: the beginning of each of its words."""
    folded, words = _folded(text), _WORD.findall(_folded(becomes))
    words = [word for word in words if len(word) >= _SHORTEST] or words
    return all(word[: max(_SHORTEST, round(len(word) * _STEM))] in folded for word in words)


def _folded(text: str) -> str:
    """Return a text without case and accents, which inflection can change."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))
