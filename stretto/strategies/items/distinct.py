"""Tells whether two samples say the same, with other punctuation, case, small words or next to no change."""

from __future__ import annotations

import re
from collections.abc import Iterable

ALIKE = 0.85  # share of common words from which long samples count as one
LONG = 7  # words; shorter samples must have the same words to be alike
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def is_repeated(text: str, others: Iterable[str]) -> bool:
    """Whether a sample repeats one of the others."""
    words, core = _words(text)
    for other in others:
        their_words, their_core = _words(other)
        if core == their_core:
            return True
        if min(len(words), len(their_words)) >= LONG and len(words & their_words) >= ALIKE * len(words | their_words):
            return True
    return False


def _words(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """All words, and those that carry the meaning: longer ones and numbers; every character of an unspaced script."""
    words: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        words.update(word if _UNSPACED.search(word) else (word,))
    core = {word for word in words if len(word) > 3 or any(map(str.isdigit, word)) or _UNSPACED.match(word)}
    return frozenset(words), frozenset(core or words or {text.strip()})
