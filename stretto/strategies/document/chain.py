"""Reads passages one after the other, each with the notes on those before it.

After Chain-of-Agents (Zhang et al., 2406.02818): for questions that need one passage to find the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from stretto.backends.base import Prompt
from stretto.citation import PassageRecord
from stretto.events import PassageRead
from stretto.strategies.document.library import Place
from stretto.strategies.document.records import NOTES_SCHEMA, json_object, record_of
from stretto.strategies.document.run import Reading

__all__ = ["follow_passages"]

_NOTES_WORDS = 150
_NOTES_CHARACTERS = 2_000


async def follow_passages(reading: Reading, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in order, then once more those before the last news: what they hold may matter only now.

    A passage that fails is passed over with a record that says so.
    """
    records: dict[int, PassageRecord] = {}
    notes, last_news = "", 0
    for index, place in enumerate(places):
        record, notes, news = await _read(reading, place, notes, f"passage-{index + 1}")
        records[index] = record
        last_news = index if news else last_news
        await _announce(reading, record, index + 1, len(places))
    for index, place in enumerate(places[:last_news]):
        if records[index].informative:
            continue
        record, notes, _ = await _read(reading, place, notes, f"passage-{index + 1}-again")
        if record.informative or records[index].status == "failed":
            records[index] = record
    return [records[index] for index in sorted(records)]


async def _read(reading: Reading, place: Place, notes: str, name: str) -> tuple[PassageRecord, str, bool]:
    shown = reading.library.shown(place)
    known = notes.replace(reading.library.fence, "") or "(none yet)"

    def prompt() -> Prompt:
        return reading.passage_prompt(
            "document_chain",
            place,
            schema=NOTES_SCHEMA,
            notes=known,
            words=str(_NOTES_WORDS),
        )

    running = reading.start(name, "passage", prompt, room=reading.sizes.record, title=shown["title"])
    await running.ended()
    found = json_object(running.text) if running.exception is None else None
    if found is None:
        cause = str(running.exception) if running.exception else "its record could not be understood"
        failed = PassageRecord(
            document=place.document, start=place.chunk.start, end=place.chunk.end, status="failed", error=cause
        )
        return failed, notes, False
    record = record_of(found, place.document, place.chunk, reading.library.passage(place))
    said = found.get("notes")
    told = said.strip()[:_NOTES_CHARACTERS] if isinstance(said, str) else ""
    return record, told or notes, bool(told) and told != notes


async def _announce(reading: Reading, record: PassageRecord, done: int, total: int) -> None:
    where = reading.library.where(record.document, record.start, record.end)
    title = f"{reading.library.titles[record.document]}, {where}"
    await reading.runner.announce(PassageRead(record=record, done=done, total=total, title=title))
