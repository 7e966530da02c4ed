"""Reads passages at the same time; each gives a record.

After FocusLLM (Li et al., 2408.11745), where every chunk is read together with the local context and gives a candidate,
and LLMxMapReduce (Zhou et al., 2410.09342), whose records hold evidence, rationale, answer and confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stretto.backends.base import ModelRequest
from stretto.backends.known_models import worth_caching
from stretto.foundation.queue import Queue
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.reading.attempt import Tries, next_tries, outcome_of
from stretto.strategies.document.reading.records import MAP_SCHEMA, TRAINED_SCHEMA, record_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.values.citation import PassageRecord

__all__ = ["read_passages"]

Ask = Callable[[Place, PromptTarget], ModelRequest]


async def read_passages(
    reading: DocumentRun, places: Sequence[Place], ask: Ask | None = None, *, name: str = "passage"
) -> list[PassageRecord]:
    """Read these passages in parallel. Records come back in the order of the documents, one or more a passage.

    A record that was cut off by its length is read again in halves, so that nothing in it is lost; one that cannot be
    understood is asked for again. What fails for good is a record with the status ``failed``.

    Args:
        reading: the run.
        places: the passages.
        ask: the prompt for a passage; by default the one that asks what it holds.
        name: of the branches, before their numbers.
    """
    schema = TRAINED_SCHEMA if reading.trained else MAP_SCHEMA

    def ask_for_record(place: Place, target: PromptTarget) -> ModelRequest:
        return reading.passage_prompt(target, "document_map", place, schema=schema)

    run = _Map(reading, ask or ask_for_record, len(places), name)
    await run.read(places)
    return sorted(run.records, key=lambda record: (record.document, record.start))


class _Map:
    def __init__(self, reading: DocumentRun, ask: Ask, total: int, name: str) -> None:
        self.reading = reading
        self.records: list[PassageRecord] = []
        self._ask = ask
        self._name = name
        self._ended = Queue[tuple[Tries, RunningBranch]]()
        self._under_way = 0
        self._total = total
        self._named = 0

    async def read(self, places: Sequence[Place]) -> None:
        for number, place in enumerate(places):
            running = self._start(Tries(place))
            if number == 0 and len(places) > 1 and self._is_cached(place):
                await running.begun()  # what all share can be read from the cache once the first response has begun
        while self._under_way:
            tries, running = await anext(self._ended)
            self._under_way -= 1
            await self._take(tries, running)

    def _is_cached(self, place: Place) -> bool:
        target = self.reading.runner.target
        return worth_caching(self._ask(place, target), target.capabilities)

    def _start(self, tries: Tries) -> RunningBranch:
        self._under_way += 1
        self._named += 1
        return self.reading.start(
            f"{self._name}-{self._named}",
            "passage",
            partial(self._ask, tries.place),
            room=self.reading.sizes.record,
            title=self.reading.title(tries.place),
            on_end=lambda running: self._ended.add((tries, running)),
        )

    async def _take(self, tries: Tries, running: RunningBranch) -> None:
        reading, outcome = self.reading, outcome_of(running, tries.place, self.reading)
        if instead := next_tries(reading, tries, outcome):
            for each in instead:
                self._start(each)
            self._total += len(instead) - 1
            return
        if outcome.found is None:
            record = reading.failed(tries.place, running, outcome.error)
        else:
            record = record_of(outcome.found, tries.place, reading, cut_off=outcome.cut_off)
        self.records.append(record)
        await reading.announce(record, len(self.records), self._total)
