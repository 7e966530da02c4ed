"""Reads passages with a small model, which is only asked to copy the sentence that answers the question.

Such a model cannot write a record, nor say that there is nothing: it invents. So its text counts only if it is a
sentence of the passage, and if that sentence shares the question's words, alone or with its heading and its
neighbours. Passages without such a sentence are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stretto.backends.base import ModelRequest
from stretto.documents.tables import cells_of
from stretto.language.line_ends import on_one_line
from stretto.language.sentences import sentences
from stretto.strategies.document.bearing import around, statements
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.findings import Findings
from stretto.strategies.document.library import Place
from stretto.strategies.document.passages import read_passages
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.values.citation import Evidence, PassageRecord

_MOST_QUOTED = 3
_MOST_AGAIN = 4  # passages that are asked about once more, with less text around a possible answer
_MOST_WIDER = 8  # passages that are read if no sentence alone has the question's words
_AS_GOOD = 0.8  # of the best quotation's share of the question's words


async def read_plainly(reading: DocumentRun, places: Sequence[Place]) -> list[PassageRecord]:
    """Read the passages that contain a sentence with the question's words, and skip the others.

    If that finds nothing, read passages whose sentences have the words together with their neighbours.
    """

    def ask(place: Place, target: PromptTarget) -> ModelRequest:
        return _prompt(reading, target, place, sentences(reading.library.text(place)))

    def ask_again(place: Place, target: PromptTarget) -> ModelRequest:
        return _prompt(reading, target, place, _bearing(reading, place))

    first, second = await reading.in_thread(partial(_chosen, places))
    records = await read_passages(reading, first, ask)
    read = {place.number for place in first}
    if second and not any(record.informative for record in records):
        records += await read_passages(reading, second, ask, name="wider")
        read |= {place.number for place in second}
    if not any(record.informative for record in records) and (again := _best(reading, [*first, *second])):
        # A model that wrote something else about a passage often does copy one of a few sentences.
        answers = await read_passages(reading, again, ask_again, name="again")
        found = {(each.document, each.start): each for each in answers}
        records = [found.get((record.document, record.start), record) for record in records]
    if len(read) < len(places):
        reading.runner.warn(
            f"{len(places) - len(read)} of {len(places)} passages were not read, because none of their sentences "
            f"holds the question's words: {reading.runner.model} cannot tell what bears on a question.",
            "unread",
        )
    skipped = [reading.skipped(place) for place in places if place.number not in read]
    return sorted([*records, *skipped], key=lambda record: (record.document, record.start))


def quoted_answer(reading: DocumentRun, findings: Findings) -> list[tuple[str, int]]:
    """Return the best-fitting quotations with their numbers, which are a small model's answer."""
    numbers = list(dict.fromkeys(number for finding in findings.found for number in finding.evidence))
    fits = {number: _fit(reading, findings.quotes[number]) for number in numbers}
    best = sorted(numbers, key=lambda number: -fits[number])[:_MOST_QUOTED]
    kept = sorted(number for number in best if fits[number] >= _AS_GOOD * fits[best[0]])
    return [(_quotation_text(reading, findings.quotes[number]), number) for number in kept]


def _quotation_text(reading: DocumentRun, evidence: Evidence) -> str:
    """Return a quotation on one line; in a table row, each cell follows the name of its column."""
    columns = cells_of(reading.library.header(evidence.document, evidence.start))
    row = cells_of(evidence.quote)
    if len(columns) == len(row) > 1:
        return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(columns, row, strict=True))
    return on_one_line(evidence.quote)


def _prompt(reading: DocumentRun, target: PromptTarget, place: Place, shown: Sequence[str]) -> ModelRequest:
    """Return the prompt for these sentences of a passage; table rows keep their lines, below the header row."""
    columns = reading.library.header(place.document, place.chunk.start)
    lines = [on_one_line(each) for each in shown]
    in_rows = columns or reading.library.has_table(place)
    passage = "\n".join([columns, *lines]).strip() if in_rows else " ".join(lines)
    return ModelRequest(reading.messages(target, "document_passage", passage=passage), reads=True)


def _bearing(reading: DocumentRun, place: Place) -> list[str]:
    """Return the sentences of a passage that may answer the question."""
    pairs = list(statements(reading.library, place))
    alone = [sentence for sentence, _ in pairs if reading.bearing.bears(sentence)]
    return alone or [sentence for sentence, among in pairs if reading.bearing.bears_among(sentence, among)]


def _best(reading: DocumentRun, places: Sequence[Place]) -> list[Place]:
    """Return the few passages whose sentences fit the question best."""

    def fit(place: Place) -> float:
        return max(reading.bearing.fit(*pair) for pair in statements(reading.library, place))

    return sorted(sorted(places, key=fit)[-_MOST_AGAIN:], key=lambda place: place.number)


def _fit(reading: DocumentRun, evidence: Evidence) -> float:
    return reading.bearing.fit(evidence.quote, around(reading.library, evidence))


def _chosen(places: Sequence[Place], reading: DocumentRun) -> tuple[list[Place], list[Place]]:
    """Return the passages with a relevant sentence, and the best of those with one that is relevant in context."""
    first, second = list[Place](), list[tuple[float, Place]]()
    for place in places:
        pairs = list(statements(reading.library, place))
        if any(reading.bearing.bears(sentence) for sentence, _ in pairs):
            first.append(place)
        elif among := [pair for pair in pairs if reading.bearing.bears_among(*pair)]:
            second.append((max(reading.bearing.fit(*pair) for pair in among), place))
    best = sorted(second, key=lambda each: -each[0])[:_MOST_WIDER]
    return first, sorted((place for _, place in best), key=lambda place: place.number)
