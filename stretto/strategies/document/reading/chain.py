"""Reads passages for questions that need one passage to find the next.

A few are read one after the other, each with the notes on those before it, after Chain-of-Agents (Zhang et al.,
2406.02818). Many would take longer than anybody waits, so they are read in rounds: all at the same time, then those
that held nothing once more with what the others have found, until a round finds nothing new or a reader is sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from stretto.backends.base import ModelRequest
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.reading.attempt import Tries, next_tries, outcome_of
from stretto.strategies.document.reading.mapping import read_passages
from stretto.strategies.document.reading.records import NOTES_SCHEMA, record_of
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.fencing import unfenced
from stretto.values.citation import PassageRecord

__all__ = ["MOST_IN_ORDER", "follow_passages", "read_in_rounds"]

MOST_IN_ORDER = 24
"""Passages that are read one after the other; more are read in rounds."""

_MOST_ROUNDS = 4
_SURE = 4  # of 5
_NOTES_WORDS = 150
_NOTES_CHARACTERS = 2_000


async def follow_passages(reading: DocumentRun, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in order, then read those before the last news again: what they hold may matter only now.

    A passage that fails is passed over with a record that says so.
    """
    chain = _Chain(reading, len(places))
    for place in places:
        await chain.read(Tries(place))
    await chain.read_again()
    return [record for _, record in sorted(chain.read_so_far.items())]


async def read_in_rounds(reading: DocumentRun, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in parallel, and repeat it with what was found as long as something new is found."""
    found: list[PassageRecord] = []
    notes = ""
    for round_ in range(1, _MOST_ROUNDS + 1):
        ask = partial(_prompt, reading, notes)
        records = await read_passages(reading, places, ask, name=f"round-{round_}")
        news = [record for record in records if record.informative]
        found += news
        rest = [record for record in records if not record.informative]
        notes = _joined([notes, *(record.rationale for record in news)])
        if not news or not rest or any(_answers(record) for record in news):
            break
        places = _those_of(places, rest)
    return sorted([*found, *rest], key=lambda record: (record.document, record.start))


class _Chain:
    def __init__(self, reading: DocumentRun, total: int) -> None:
        self.read_so_far: dict[tuple[int, int], PassageRecord] = {}
        self._reading = reading
        self._places: list[Place] = []
        self._total = total
        self._notes = ""
        self._last_news = 0  # passages up to the last one that changed the notes
        self._calls = 0

    async def read(self, tries: Tries) -> None:
        """Read a passage that was not read before."""
        before = self._notes
        instead, record = await self._call(tries)
        if record is None:
            self._total += len(instead) - 1
            for each in instead:
                await self.read(each)
            return
        self._places.append(tries.place)
        self.read_so_far[record.document, record.start] = record
        if self._notes != before:
            self._last_news = len(self._places) - 1
        await self._reading.announce(record, len(self._places), self._total)

    async def read_again(self) -> None:
        """Read passages again that held nothing and were read before the last news, unless the answer is known."""
        if any(_answers(record) for record in self.read_so_far.values()):
            return
        for place in self._places[: self._last_news]:
            key = place.document, place.chunk.start
            if self.read_so_far[key].informative:
                continue
            _, record = await self._call(Tries(place, again=0, halvings=0))
            if record is not None and (record.informative or self.read_so_far[key].status == "failed"):
                self.read_so_far[key] = record

    async def _call(self, tries: Tries) -> tuple[list[Tries], PassageRecord | None]:
        """The record of a passage, or what to read instead."""
        reading = self._reading
        self._calls += 1
        running = reading.start(
            f"passage-{self._calls}",
            "passage",
            partial(_prompt, reading, self._notes, tries.place),
            room=reading.sizes.record,
            title=reading.title(tries.place),
        )
        await running.ended()
        outcome = outcome_of(running, tries.place, reading)
        if instead := next_tries(reading, tries, outcome):
            return instead, None
        if outcome.found is None:
            return [], reading.failed(tries.place, running, outcome.error)
        record = record_of(outcome.found, tries.place, reading, cut_off=outcome.cut_off)
        notes = outcome.found.get("notes")
        self._notes = (notes.strip()[:_NOTES_CHARACTERS] if isinstance(notes, str) else "") or self._notes
        return [], record


def _answers(record: PassageRecord) -> bool:
    """Whether the reader of a passage was sure of the answer, with the notes it was given."""
    return bool(record.answer) and record.confidence >= _SURE


def _prompt(reading: DocumentRun, notes: str, place: Place, target: PromptTarget) -> ModelRequest:
    known, words = unfenced(notes, reading.library.fence) or "(none yet)", str(_NOTES_WORDS)
    return reading.passage_prompt(target, "document_chain", place, schema=NOTES_SCHEMA, notes=known, words=words)


def _joined(notes: Iterable[str]) -> str:
    """Notes of several passages together, each once, the latest kept where there are too many."""
    lines = dict.fromkeys(" ".join(each.split()) for note in notes for each in note.splitlines())
    return "\n".join(line for line in lines if line)[-_NOTES_CHARACTERS:]


def _those_of(places: Sequence[Place], records: Iterable[PassageRecord]) -> list[Place]:
    """The passages that these records are of, whole or in part."""
    spans = [(record.document, record.start, record.end) for record in records]
    return [
        place
        for place in places
        if any(
            document == place.document and start < place.chunk.end and end > place.chunk.start
            for document, start, end in spans
        )
    ]
