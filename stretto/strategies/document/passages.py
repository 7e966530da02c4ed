"""Reads passages in parallel, in order, or in rounds, and returns a record of each.

After FocusLLM (Li et al., 2408.11745), where every chunk is read with its local context and yields a candidate, and
LLMxMapReduce (Zhou et al., 2410.09342), whose records contain evidence, rationale, answer and confidence.

For questions that need one passage to find the next, a few passages are read sequentially, each with the notes on those
before it, after Chain-of-Agents (Zhang et al., 2406.02818). Many would take too long that way, so they are read in
rounds: all in parallel, then those without a finding once more with what the others found, until a round finds
nothing new or a reader is sure.

Where a text is dense in what the question asks for, passages are made smaller first: the more a passage contains, the
more is missed. Only those passages are cut again. All others, and all numbers, are the same for every question, so
their prompts can still be served from caches.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from statistics import median_low
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.backends.known_models import worth_caching
from stretto.foundation.queue import Queue
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.records import MAP_SCHEMA, NOTES_SCHEMA, TRAINED_SCHEMA, copied, record_in, record_of
from stretto.strategies.document.sizes import USUAL_LEAST, useful_slots
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.fencing import unfenced
from stretto.values.citation import PassageRecord
from stretto.values.errors import BudgetExceededError, DeadlineExceededError

Ask = Callable[[Place, PromptTarget], ModelRequest]


async def read_passages(
    reading: DocumentRun, places: Sequence[Place], ask: Ask | None = None, *, name: str = "passage"
) -> list[PassageRecord]:
    """Read these passages in parallel; return records in document order, one or more per passage.

    A passage whose record was cut off at its limit is read again in halves, so nothing is lost; a record that cannot be
    parsed is requested again. A final failure becomes a record with the status ``failed``. ``ask`` makes the prompt for
    a passage, by default one that asks for a record; ``name`` is the name of the branches, without their numbers.
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
        self._ended = Queue[tuple[_Tries, RunningBranch]]()
        self._under_way = 0
        self._total = total
        self._named = 0

    async def read(self, places: Sequence[Place]) -> None:
        for number, place in enumerate(places):
            running = self._start(_Tries(place))
            if number == 0 and len(places) > 1 and self._is_cached(place):
                await running.begun()  # the shared prefix can be read from the cache once the first response has begun
        while self._under_way:
            tries, running = await anext(self._ended)
            self._under_way -= 1
            await self._take(tries, running)

    def _is_cached(self, place: Place) -> bool:
        target = self.reading.runner.target
        return worth_caching(self._ask(place, target), target.capabilities)

    def _start(self, tries: _Tries) -> RunningBranch:
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

    async def _take(self, tries: _Tries, running: RunningBranch) -> None:
        reading, outcome = self.reading, _outcome_of(running, tries.place, self.reading)
        if instead := _next_tries(reading, tries, outcome):
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


MOST_IN_ORDER = 24
"""The most passages that are read sequentially; more are read in rounds."""

_MOST_ROUNDS = 4
_SURE = 4  # of 5
_NOTES_WORDS = 150
_NOTES_CHARACTERS = 2_000


async def follow_passages(reading: DocumentRun, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in order, then read those before the last news again, as they may matter only now.

    A passage that fails is skipped, with a record that says so.
    """
    chain = _Chain(reading, len(places))
    for place in places:
        await chain.read(_Tries(place))
    await chain.read_again()
    return [record for _, record in sorted(chain.read_so_far.items())]


async def read_in_rounds(reading: DocumentRun, places: Sequence[Place]) -> list[PassageRecord]:
    """Read these passages in parallel, and repeat with the findings as long as something new is found."""
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

    async def read(self, tries: _Tries) -> None:
        """Read a passage for the first time."""
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
        """Reread passages without a finding that were read before the last news, unless the answer is known."""
        if any(_answers(record) for record in self.read_so_far.values()):
            return
        for place in self._places[: self._last_news]:
            key = place.document, place.chunk.start
            if self.read_so_far[key].informative:
                continue
            _, record = await self._call(_Tries(place, again=0, halvings=0))
            if record is not None and (record.informative or self.read_so_far[key].status == "failed"):
                self.read_so_far[key] = record

    async def _call(self, tries: _Tries) -> tuple[list[_Tries], PassageRecord | None]:
        """Return the record of a passage, or what to read instead."""
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
        outcome = _outcome_of(running, tries.place, reading)
        if instead := _next_tries(reading, tries, outcome):
            return instead, None
        if outcome.found is None:
            return [], reading.failed(tries.place, running, outcome.error)
        record = record_of(outcome.found, tries.place, reading, cut_off=outcome.cut_off)
        notes = outcome.found.get("notes")
        self._notes = (notes.strip()[:_NOTES_CHARACTERS] if isinstance(notes, str) else "") or self._notes
        return [], record


def _answers(record: PassageRecord) -> bool:
    """Return whether the reader of a passage was sure of the answer, given its notes."""
    return bool(record.answer) and record.confidence >= _SURE


def _prompt(reading: DocumentRun, notes: str, place: Place, target: PromptTarget) -> ModelRequest:
    known, words = unfenced(notes, reading.library.fence) or "(none yet)", str(_NOTES_WORDS)
    return reading.passage_prompt(target, "document_chain", place, schema=NOTES_SCHEMA, notes=known, words=words)


def _joined(notes: Iterable[str]) -> str:
    """Join the notes on several passages, each once; if there are too many, the latest are kept."""
    lines = dict.fromkeys(" ".join(each.split()) for note in notes for each in note.splitlines())
    return "\n".join(line for line in lines if line)[-_NOTES_CHARACTERS:]


def _those_of(places: Sequence[Place], records: Iterable[PassageRecord]) -> list[Place]:
    """Return the passages that these records cover, in whole or in part."""
    spans = [(record.document, record.start, record.end) for record in records]
    return [
        place
        for place in places
        if any(
            document == place.document and start < place.chunk.end and end > place.chunk.start
            for document, start, end in spans
        )
    ]


_AGAIN = 2  # more readings after one that broke off or makes no sense
_HALVINGS = 3  # of a passage whose record does not fit
_LEAST = 16  # tokens of a passage that is worth halving
_NO_RECORD = "What the model wrote of it is not the JSON that it was asked for. Use a model that keeps to that."


@dataclass(frozen=True)
class _Tries:
    """A passage to read, how often it may be read again, and how often cut in two."""

    place: Place
    again: int = _AGAIN
    halvings: int = _HALVINGS


@dataclass(frozen=True)
class _Outcome:
    """The outcome of one reading.

    Attributes:
        found: the record as the model wrote it; ``None`` if there is none.
        cut_off: the record ended at its limit, so there may be more in the passage.
        error: why there is no record.
        hopeless: reading the passage again cannot help.
    """

    found: dict[str, Any] | None
    cut_off: bool = False
    error: str = ""
    hopeless: bool = False


def _outcome_of(running: RunningBranch, place: Place, reading: DocumentRun) -> _Outcome:
    error = running.exception
    if error is not None:
        out_of_means = isinstance(error, (DeadlineExceededError, BudgetExceededError))
        # If no text was received, the fan-out has already asked twice.
        return _Outcome(None, error=str(error), hopeless=out_of_means or not running.text.strip())
    if reading.plain:
        # Text that is not a sentence of the passage is dropped and counted as a quotation that does not occur in it.
        return _Outcome(copied(running.text, place, reading) or {"evidence": [running.text], "answer": ""})
    found = record_in(running.text)
    if found is None and reading.task.kind in ("answer", "compare"):
        found = copied(running.text, place, reading)
    cut_off = running.finish_reason in ("length", "budget")
    return _Outcome(found, cut_off, "" if found else _NO_RECORD)


def _next_tries(reading: DocumentRun, tries: _Tries, outcome: _Outcome) -> list[_Tries]:
    """Return what to read instead: the halves of a passage whose record does not fit, or the passage again."""
    if outcome.cut_off and tries.halvings and tries.place.chunk.tokens > _LEAST:
        parts = reading.halves(tries.place)
        if len(parts) > 1:
            return [_Tries(part, tries.again, tries.halvings - 1) for part in parts]
    if outcome.found is None and not outcome.hopeless and tries.again:
        return [replace(tries, again=tries.again - 1)]
    return []


_WORD = re.compile(r"\w{4,}")
_PAIR = re.compile(r"(?=([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}))")  # of letters, in scripts of short words
_MOST_WORDS, _MOST_PAIRS = 8, 24  # of the question
_STEM = 0.7  # share of a word that has to match: "invoices" and "invoice", "termination" and "terminate"
_SHORTEST_STEM = 4
_USUAL = 2  # times the median frequency of a word; mentions up to there do not count
_MENTIONS = 16  # of a passage; from here on it is cut in two
_WAVES = 4  # waves of calls that justify one more: a quarter of the time
_MOST_TIMES = 4  # times the calls that there would be otherwise


def narrowed(reading: DocumentRun, places: Sequence[Place]) -> list[Place]:
    """Halve the dense passages repeatedly, the densest first, but not below 400 tokens.

    A passage is dense if it has sixteen mentions of the question's words beyond the usual, which is twice their median
    frequency over all passages. With the preference ``careful``, there are up to four times the calls, as far as
    rate limits and budget allow; with ``balanced``, as many more as fill the last wave, and one wave for every four;
    with ``fastest``, none.
    """
    room = _room(reading, places)
    if room <= 0 or len(places) < 2:
        return list(places)
    mentions = _mentions(reading, places)
    order = count()
    waiting = [(-mentions(place), next(order), place) for place in places]
    heapq.heapify(waiting)
    done: list[Place] = []
    while waiting and room > 0 and -waiting[0][0] >= _MENTIONS:
        place = heapq.heappop(waiting)[2]
        parts = reading.halves(place) if place.chunk.tokens >= 2 * USUAL_LEAST else [place]
        if len(parts) == 1:
            done.append(place)
            continue
        room -= 1
        for part in parts:
            heapq.heappush(waiting, (-mentions(part), next(order), part))
    return sorted([*done, *(place for *_, place in waiting)], key=lambda place: (place.document, place.chunk.start))


def _room(reading: DocumentRun, places: Sequence[Place]) -> int:
    """Return how many calls are allowed in addition to one per passage."""
    request, runner, calls = reading.request, reading.runner, len(places)
    in_order = reading.task.hops and calls <= MOST_IN_ORDER
    slots = 1 if in_order else useful_slots(runner.capabilities, runner.known.measured)
    later = 0 if request.deadline_s is not None else slots * (calls // slots // _WAVES)
    extra = -calls % slots + later
    most = {"fastest": 0, "balanced": extra, "careful": calls * (_MOST_TIMES - 1)}[request.preference]
    if request.deadline_s is not None:
        most = min(most, extra)
    if in_order:
        most = min(most, MOST_IN_ORDER - calls)
    # Half is kept for rereading and combining; in rounds, most passages are read twice.
    share = 4 if reading.task.hops and not in_order else 2
    left = reading.left
    requests, tokens = left.get("requests", math.inf), left.get("tokens", math.inf)
    texts = sum(place.chunk.tokens for place in places)
    return int(min(most, requests / share - calls, (tokens / share - texts) / reading.sizes.call_overhead - calls))


def _mentions(reading: DocumentRun, places: Sequence[Place]) -> Callable[[Place], float]:
    """Return a function that counts mentions of the question's words beyond the usual, also within longer words."""
    stems = _stems(reading.request.question.lower())
    texts = [(reading.library.text(place).lower(), max(1, place.chunk.tokens)) for place in places]
    usual = {stem: _USUAL * median_low(text.count(stem) / tokens for text, tokens in texts) for stem in stems}

    def counted(place: Place) -> float:
        text = reading.library.text(place).lower()
        return sum(max(0.0, text.count(stem) - often * place.chunk.tokens) for stem, often in usual.items())

    return counted


def _stems(question: str) -> tuple[str, ...]:
    """Return the stems of a question's longest words, and character pairs in Chinese, Japanese and Korean."""
    words = sorted({word: None for word in _WORD.findall(question) if not _PAIR.search(word)}, key=len)
    stems = [word[: max(_SHORTEST_STEM, math.ceil(_STEM * len(word)))] for word in words[-_MOST_WORDS:]]
    pairs = list(dict.fromkeys(_PAIR.findall(question)))[:_MOST_PAIRS]
    return tuple(dict.fromkeys(stems + pairs))  # in order, so that passages are the same in each run of a program
