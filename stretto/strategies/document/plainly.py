"""Reads passages with a small model, which is asked for one thing: to copy the sentence that answers the question.

Such a model holds no record, and it cannot say that there is nothing: it invents. So what it writes counts only where
it is a sentence of the passage, and where that sentence shares the question's words. Passages without such a sentence
are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from stretto.backends.base import ModelRequest
from stretto.citation import PassageRecord
from stretto.strategies.document.bearing import sentences
from stretto.strategies.document.findings import Findings
from stretto.strategies.document.library import Place
from stretto.strategies.document.mapping import read_passages
from stretto.strategies.document.run import Reading

__all__ = ["quoted_answer", "read_plainly"]

_MOST_QUOTED = 3
_AS_GOOD = 0.8  # of the best quotation's share of the question's words


async def read_plainly(reading: Reading, places: Sequence[Place]) -> list[PassageRecord]:
    """Read the passages that hold a sentence with the question's words; the others are skipped."""
    chosen = await reading.in_thread(lambda _: [place for place in places if _may_answer(reading, place)])
    kept = {place.number for place in chosen}
    if len(chosen) < len(places):
        reading.runner.warn(
            f"{len(places) - len(chosen)} of {len(places)} passages were not read, because none of their sentences "
            f"holds the question's words: {reading.runner.model} cannot tell what bears on a question."
        )

    def ask(place: Place) -> ModelRequest:
        passage = " ".join(reading.library.text(place).split())
        return ModelRequest(reading.messages("document_passage", passage=passage), reads=True)

    records = await read_passages(reading, chosen, ask)
    skipped = [reading.skipped(place) for place in places if place.number not in kept]
    return sorted([*records, *skipped], key=lambda record: (record.document, record.start))


def quoted_answer(reading: Reading, findings: Findings) -> list[tuple[str, int]]:
    """The quotations that fit the question best, each with its number: they are the answer of a small model."""
    numbers = list(dict.fromkeys(number for finding in findings.found for number in finding.evidence))
    shares = {number: reading.bearing.share(findings.quotes[number].quote) for number in numbers}
    best = sorted(numbers, key=lambda number: -shares[number])[:_MOST_QUOTED]
    kept = sorted(number for number in best if shares[number] >= _AS_GOOD * shares[best[0]])
    return [(" ".join(findings.quotes[number].quote.split()), number) for number in kept]


def _may_answer(reading: Reading, place: Place) -> bool:
    return any(map(reading.bearing.bears, sentences(reading.library.text(place))))
