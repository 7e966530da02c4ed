"""Chooses passages to skip by the BM25 score of question and passage, with bm25s."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.strategies.document.library import Place
from stretto.strategies.document.run import Reading

__all__ = ["relevant"]

_WORD = re.compile(r"\w{2,}")
_SHARE = 4  # at least one passage in this many is read
_FEWEST = 8


def relevant(reading: Reading, places: Sequence[Place]) -> list[Place]:
    """The passages worth reading, in their order; all of them where bm25s is not installed, which a warning says.

    Those with the best scores are kept: as many as run in parallel, a quarter of all, or eight, whichever is most.
    """
    keep = max(reading.runner.capabilities.concurrent_calls, len(places) // _SHARE, _FEWEST)
    if len(places) <= keep:
        return list(places)
    try:
        import bm25s  # noqa: PLC0415 - part of an extra, and used for one preference only
    except ImportError:
        reading.runner.warn("All passages were read: bm25s is not installed. Run: pip install 'stretto[documents]'")
        return list(places)
    known: dict[str, str] = {}  # each once: else they take many times the memory of the text
    words = [
        [known.setdefault(word, word) for word in _WORD.findall(reading.library.text(place).lower())]
        for place in places
    ]
    asked = [word for word in _WORD.findall(reading.request.question.lower()) if word in known]
    if not asked:
        return list(places)
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    found, _ = index.retrieve([asked], k=keep, show_progress=False)
    best = {int(each) for each in found[0]}
    return [place for at, place in enumerate(places) if at in best]
