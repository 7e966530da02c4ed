"""Merges the things of a kind that were found in all passages, each once, in order. No model is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from stretto.citation import Citation, Evidence, PassageRecord
from stretto.strategies.document.run import Reading

__all__ = ["Extract", "extracted"]


@dataclass(frozen=True)
class Extract:
    """The text of the answer, a list or JSON, and a citation for each thing in it."""

    text: str
    citations: tuple[Citation, ...]


def extracted(reading: Reading, records: Sequence[PassageRecord]) -> Extract | None:
    """Everything that was found; ``None`` if that is nothing, so that a sentence has to say so."""
    found: dict[str, Evidence] = {}
    for record in records:
        for evidence in record.evidence:
            found.setdefault(_key(evidence.quote), evidence)
    places = ((each.document, each.start, each.end) for each in found.values())
    citations = tuple(reading.library.citation(number, *place) for number, place in enumerate(places, start=1))
    things = [" ".join(each.quote.split()) for each in found.values()]
    if reading.task.json:
        rows = [
            {"value": thing, "document": citation.title, "start": citation.start, "end": citation.end}
            for thing, citation in zip(things, citations, strict=True)
        ]
        return Extract(json.dumps(rows, ensure_ascii=False, indent=2), citations)
    lines = [f"- {thing} {citation.label}" for thing, citation in zip(things, citations, strict=True)]
    if reading.task.counts:
        lines = [f"{len(things)}", "", *lines] if lines else ["0"]
    return Extract("\n".join(lines), citations) if lines else None


def _key(quote: str) -> str:
    """A key that is equal for things that count as one: it ignores case, and punctuation around them."""
    return " ".join(quote.casefold().split()).strip(" .,;:\"'()[]")
