"""Reads all passages at the same time; each gives a record.

After FocusLLM (Li et al., 2408.11745), where every chunk is read together with the local context and gives a candidate,
and LLMxMapReduce (Zhou et al., 2410.09342), whose records hold evidence, rationale, answer and confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stretto.citation import PassageRecord
from stretto.document import Document
from stretto.documents import cut
from stretto.events import PassageRead
from stretto.queue import Queue
from stretto.strategies.branch import Running
from stretto.strategies.document.library import Place
from stretto.strategies.document.records import MAP_SCHEMA, json_object, record_of
from stretto.strategies.document.run import Reading

__all__ = ["read_passages"]

_TRIES = 2  # readings of a passage whose record is cut off or makes no sense, after the first


async def read_passages(reading: Reading, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in parallel. Records come back in the order of the documents, one or more a passage.

    A record that was cut off by its length is read again in halves, so that nothing in it is lost; one that cannot be
    understood is asked for again. What fails for good is a record with the status ``failed``.
    """
    run = _Map(reading, len(places))
    await run.read(places)
    return sorted(run.records, key=lambda record: (record.document, record.start))


class _Map:
    def __init__(self, reading: Reading, total: int) -> None:
        self.reading = reading
        self.records: list[PassageRecord] = []
        self._ended = Queue[tuple[Place, int, Running]]()
        self._under_way = 0
        self._done = 0
        self._total = total
        self._named = 0

    async def read(self, places: Sequence[Place]) -> None:
        for place in places:
            self._start(place, _TRIES)
        while self._under_way:
            place, tries, running = await anext(self._ended)
            self._under_way -= 1
            await self._take(place, tries, running)

    def _start(self, place: Place, tries: int) -> None:
        self._under_way += 1
        self._named += 1
        reading = self.reading
        reading.start(
            f"passage-{self._named}",
            "passage",
            lambda: reading.passage_prompt("document_map", place, schema=MAP_SCHEMA),
            room=reading.sizes.record,
            title=_title(reading, place),
            on_end=lambda running: self._ended.add((place, tries, running)),
        )

    async def _take(self, place: Place, tries: int, running: Running) -> None:
        reading = self.reading
        found = json_object(running.text) if running.exception is None else None
        cut_off = running.finish_reason == "length"
        if running.exception is None and tries and (cut_off or found is None):
            halves = _halves(reading, place) if cut_off else [place]
            for half in halves:
                self._start(half, tries - 1)
            self._total += len(halves) - 1
            return
        if found is None:
            cause = str(running.exception) if running.exception else "its record could not be understood"
            record = PassageRecord(
                document=place.document, start=place.chunk.start, end=place.chunk.end, status="failed", error=cause
            )
        else:
            record = record_of(found, place.document, place.chunk, reading.library.passage(place))
        self.records.append(record)
        self._done += 1
        await reading.runner.announce(
            PassageRead(record=record, done=self._done, total=self._total, title=_title(reading, place))
        )


def _halves(reading: Reading, place: Place) -> list[Place]:
    """The passage in two, or as it is where it is too short for that."""
    text = reading.library.text(place)
    size = max(1, place.chunk.tokens // 2 + 1)
    parts = cut(Document(text=text), size, reading.count)
    start = place.chunk.start
    return [replace(place, chunk=replace(part, start=start + part.start, end=start + part.end)) for part in parts]


def _title(reading: Reading, place: Place) -> str:
    where = reading.library.where(place.document, place.chunk.start, place.chunk.end)
    return f"{reading.library.titles[place.document]}, {where}"
