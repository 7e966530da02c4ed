"""Puts together what ``extract`` found: the union over all passages, each thing once, in order. No model is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stretto.citation import Citation, Evidence, PassageRecord
from stretto.strategies.document.run import Reading

__all__ = ["extracted"]


def extracted(reading: Reading, records: Sequence[PassageRecord]) -> tuple[str, list[Citation]]:
    """The text of the answer, a list or JSON, and a citation for each thing in it."""
    found: dict[str, Evidence] = {}
    for record in records:
        for evidence in record.evidence:
            found.setdefault(_key(evidence.quote), evidence)
    citations = [reading.library.citation(each.document, each.start, each.end) for each in found.values()]
    things = [" ".join(each.quote.split()) for each in found.values()]
    task = reading.task
    if task.json:
        rows = [
            {"value": thing, "document": citation.title, "start": citation.start, "end": citation.end}
            for thing, citation in zip(things, citations, strict=True)
        ]
        return json.dumps(rows, ensure_ascii=False, indent=2), citations
    lines = [f"- {thing} {citation.label}" for thing, citation in zip(things, citations, strict=True)]
    if task.counts:
        lines = [f"{len(things)}", "", *lines] if lines else ["0"]
    return "\n".join(lines), citations


def _key(quote: str) -> str:
    return " ".join(quote.casefold().split()).strip(" .,;:\"'()[]")
