"""Texts as words: what detectors compare, without case, punctuation and markup."""

from __future__ import annotations

import re

from stretto.language.folding import UNSPACED

ENDS = frozenset(".!?:;…\n。！？：；")
"""Characters that end a sentence, where they stand behind a word."""

LONGEST = 32
"""Characters of a word. A longer one counts as several, so that a loop without blanks is seen while it comes."""

_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]{{1,{LONGEST}}}")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; in scripts without blanks, its characters."""
    return _WORD.findall(text.casefold())


def sentences_of(text: str) -> list[list[str]]:
    """The words of each sentence or line of a text; empty ones are left out."""
    found: list[list[str]] = [[]]
    text, at = text.casefold(), 0
    for match in _WORD.finditer(text):
        if not ENDS.isdisjoint(text[at : match.start()]):
            found.append([])
        found[-1].append(match[0])
        at = match.end()
    return [sentence for sentence in found if sentence]
