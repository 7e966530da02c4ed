"""Detects samples that say the same, apart from punctuation, case, function words or minimal changes."""

from __future__ import annotations

import re
from collections.abc import Iterable

ALIKE = 0.85  # share of common words above which long samples count as duplicates
LONG = 7  # words; shorter samples are duplicates only if all words are the same
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
    """All words, and the content words: longer ones and numbers; in scripts without blanks, every character."""
    words: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        words.update(word if _UNSPACED.search(word) else (word,))
    core = {word for word in words if len(word) > 3 or any(map(str.isdigit, word)) or _UNSPACED.match(word)}
    return frozenset(words), frozenset(core or words or {text.strip()})
