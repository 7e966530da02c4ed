"""``document``: reads documents of any length for a question, and cites the passages that support the answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from stretto.backends.base import ModelRequest
from stretto.router.case import Case
from stretto.router.given import Given
from stretto.router.offer import Offer
from stretto.router.parse import parse_of
from stretto.router.track_record import Kind
from stretto.strategies.base import Strategy, StrategyResult
from stretto.strategies.direct import Direct
from stretto.strategies.document.citing import CitationFilter
from stretto.strategies.document.document_offer import offer_document
from stretto.strategies.document.document_reading import DocumentOptions, DocumentRun, reading_of
from stretto.strategies.document.final import (
    NO_FINDINGS,
    all_failed,
    answer_in_form,
    as_found,
    ends_as,
    in_words,
    kinds_of,
    unable,
    warning_of,
    whole,
)
from stretto.strategies.document.findings import Findings, collapsed
from stretto.strategies.document.library import DocumentCache, Place
from stretto.strategies.document.passages import MOST_IN_ORDER, follow_passages, narrowed, read_in_rounds, read_passages
from stretto.strategies.document.plainly import quoted_answer, read_plainly
from stretto.strategies.document.report import PLAN_ROOM, Material, Report, of_documents, of_findings
from stretto.strategies.document.sizes import UNKNOWN_WINDOW, reading_s
from stretto.strategies.runtime.parts import THINKING
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.in_form import with_response_format
from stretto.values.citation import Citation, Evidence, PassageRecord
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Route

_log = logging.getLogger(__name__)
_LONG_READING_S = 30.0  # for a whole prompt
_NO_READING = (
    "strategy_options= holds stop_after='reading', which cannot be used: {}, and the reading alone gives none. "
    "Leave out one of the two."
)
_MOST_NAMED = 20  # places in a warning; Answer.passages lists all


class LongDocument:
    """Sends documents whole if they fit; else reads passages in parallel or in sequence, and combines the results."""

    name = "document"
    options = DocumentOptions

    def __init__(self) -> None:
        self._cache = DocumentCache()

    def offer(self, case: Case) -> Offer | None:
        """Offer to read documents that do not fit into the context window."""
        return offer_document(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult | None:
        """Read the documents, combine the findings, and answer; without documents, answer directly."""
        if not request.documents:
            runner.warn("Answered in one piece: the request has no documents.", "strategy")
            return await Direct().run(request, route, runner)
        if isinstance(parse_of(request, route).given, Given) and (rewrite := _rewriting()) is not None:
            return await _rewrite(rewrite, request, route, runner)
        run = _Run(await reading_of(request, runner, self._cache), route)
        await run.run()
        return run.result


def _rewriting() -> Strategy | None:
    """Return the strategy for documents that are to be changed, if there is one."""
    from stretto.strategies import STRATEGIES  # noqa: PLC0415 - it imports this module

    return STRATEGIES.get("rewrite")


async def _rewrite(rewrite: Strategy, request: Request, route: Route, runner: Runner) -> StrategyResult | None:
    """Pass documents that are to be changed to the ``rewrite`` strategy. Raises `InvalidRequestError`."""
    if request.strategy_options.get("stop_after") == "reading":
        raise InvalidRequestError(_NO_READING.format("a document is rewritten piece by piece"))
    if request.options.response_format is not None:
        raise InvalidRequestError(
            "response_format holds an answer as a whole, and a document is rewritten piece "
            "by piece. Leave it out, or use strategy='direct'."
        )
    plain = request.model_copy(update={"strategy_options": {}})  # these are options for reading
    return await rewrite.run(plain, route, runner)


class _Run:
    def __init__(self, reading: DocumentRun, route: Route) -> None:
        self.reading, self.route = reading, route
        self.runner = reading.runner
        self.result = StrategyResult()
        self.in_form = reading.request.options.response_format is not None
        self.stops = reading.options.stop_after == "reading"

    async def run(self) -> None:
        reading = self.reading
        if self.stops and self.in_form:
            raise InvalidRequestError(_NO_READING.format("response_format holds an answer"))
        if self.in_form:
            with_response_format(ModelRequest(()), reading.request, self.runner.target)  # before any call is wasted
        in_passages = reading.task.kind == "extract" or reading.plain or self.stops
        fitting = None if in_passages else await reading.in_thread(whole)
        if fitting is None:
            await self._read()
            return
        cut, text = replace(fitting[0], count=reading.count), fitting[1]
        self._log_long_reading(tokens := reading.count(text))
        if self.in_form:
            self.result = replace(self.result, parsed=await answer_in_form(cut, "document_whole", text))
            await self.runner.merge.finish()
        else:
            await self._answer(of_documents(cut, text), tokens)

    def _log_long_reading(self, tokens: int) -> None:
        """Log, before any output, that a model in this process is about to read for a long time."""
        runner = self.runner
        if (read_s := reading_s(runner.model, runner.known.measured, tokens)) >= _LONG_READING_S:
            _log.warning(
                "%s reads the documents whole before its first word: %d tokens, about %.0f s. A model with the prompts "
                "of the family small reads only what a search finds.",
                *(runner.model, tokens, read_s),
            )

    async def _read(self) -> None:
        reading = self.reading
        places, skipped = await reading.in_thread(self._places)
        records = await self._records(places)
        skipped += [record for record in records if record.status == "skipped"]
        records = [record for record in records if record.status != "skipped"]
        self._report(records, skipped)
        passages = tuple(sorted([*records, *skipped], key=lambda each: (each.document, each.start)))
        if records and all(record.status == "failed" for record in records):
            raise all_failed(reading, records)
        self.result = replace(self.result, passages=passages, ends_as=ends_as(reading, records))
        if any(record.status == "read" for record in records) or None in reading.failures:
            self.runner.known.note_track_record(Kind.RECORDS, reading.request, managed=not unable(reading, records))
        if not any(record.informative for record in records):
            await self._say_nothing(records, len(skipped))
            return
        if reading.task.kind == "extract" and not self.in_form and (extract := extracted(reading, records)):
            await self._write(*extract)
            return
        findings = Findings(reading, records)
        if reading.plain and not self.in_form:
            await self._quote(findings)
            return
        if self.stops:
            await self._write(*as_found(findings))
            return
        kept = await collapsed(reading, findings)
        if not self.in_form:
            await self._answer(of_findings(reading, findings, kept), findings.tokens(*kept))
            self.result = replace(self.result, by_itself=findings.are_the_answer)
            if not self.result.citations and reading.task.kind != "summarise":
                self.runner.warn(
                    f"The answer names none of the {len(findings.quotes)} quotations that it was given. They are in "
                    "Answer.passages.",
                    "quotation",
                )
            return
        parsed = await answer_in_form(reading, "document_answer", findings.all_shown(kept))
        await self.runner.merge.finish()
        numbers = sorted({number for finding in kept for number in finding.evidence})
        citations = tuple(findings.citation(number) for number in numbers)
        self.result = replace(self.result, parsed=parsed, citations=citations)

    async def _records(self, places: Sequence[Place]) -> list[PassageRecord]:
        if self.reading.plain:
            return await read_plainly(self.reading, places)
        if not self.reading.task.hops:
            return await read_passages(self.reading, places)
        if len(places) <= MOST_IN_ORDER:
            return await follow_passages(self.reading, places)
        return await read_in_rounds(self.reading, places)

    async def _say_nothing(self, records: Sequence[PassageRecord], skipped: int) -> None:
        """Answer that nothing was found, or that the model could not search, in the requested form."""
        reading = self.reading
        kinds = kinds_of(reading, records, skipped)
        cannot = "unable" in kinds
        self.runner.warn(warning_of(reading, records), "unread")
        ends = self.result.ends_as or ("incomplete" if cannot else "nothing_found")
        self.result = replace(self.result, ends_as=ends)
        if self.in_form:
            parsed = await answer_in_form(reading, "document_answer", NO_FINDINGS)
            self.result = replace(self.result, parsed=parsed)
            self.runner.warn("No part of the documents supports what the answer says in its form.", "quotation")
            await self.runner.merge.finish()
            return
        task, text = reading.task, in_words(reading.request, *kinds)
        if task.kind == "extract" and not cannot and (task.json or task.counts):
            empty = "[]" if task.json else "0"
            text = f"{empty}\n\n{text}" if task.counts and kinds != ("nothing",) else empty
        await self._write(text)

    async def _quote(self, findings: Findings) -> None:
        """Answer with the quotations themselves, because a small model's wording might claim what none of them says."""
        quoted = quoted_answer(self.reading, findings)
        citations = tuple(findings.citation(number) for _, number in quoted)
        await self._write(
            "\n\n".join(f"{text} {each.label}" for (text, _), each in zip(quoted, citations, strict=True)), citations
        )
        self.runner.warn(
            f"The answer is quoted from the documents: {self.runner.model} is too small to put it into words.",
            "strategy",
        )

    async def _write(self, text: str, citations: tuple[Citation, ...] = ()) -> None:
        """Write an answer without the model."""
        self.result = replace(self.result, citations=citations, by_itself=True)
        self.runner.merge.add(text)
        await self.runner.merge.finish()

    async def _answer(self, material: Material, tokens: int) -> None:
        """Write the answer, in sections if the route says so, and report its citations."""
        cited: CitationFilter | Report
        if self.route.in_sections and self._has_room(tokens):
            cited = Report(self.reading, self.route, material, parse_of(self.reading.request, self.route))
            await cited.run()
        else:
            cited = material.straight("")
            await self.runner.merge.finish()
        self.result = replace(self.result, citations=tuple(cited.citations))
        if cited.unknown:
            self.runner.warn(f"{cited.unknown} citations named no passage and were left out.", "quotation")

    def _has_room(self, tokens: int) -> bool:
        """Return whether a plan fits into the window after this many tokens of material; if not, warn."""
        able = self.runner.capabilities
        window = able.context_window or UNKNOWN_WINDOW
        if tokens + PLAN_ROOM + (THINKING if able.reasoning else 0) <= window:
            return True
        self.runner.warn(
            f"Answered in one piece instead of by a plan: what was read leaves no room for one in {window:,} tokens "
            f"of {self.runner.model}.",
            "strategy",
        )
        return False

    def _places(self, reading: DocumentRun) -> tuple[Sequence[Place], list[PassageRecord]]:
        """Return the passages to read, and records of the skipped ones; only the preference ``fastest`` skips any."""
        places = reading.library.places
        if reading.task.kind == "summarise" or reading.task.report or reading.plain:
            return places, []
        if reading.request.preference != "fastest" or reading.task.kind == "extract":
            return narrowed(reading, places), []
        chosen = relevant(reading, places)
        kept = {place.number for place in chosen}
        return chosen, [reading.skipped(place) for place in places if place.number not in kept]

    def _report(self, records: Sequence[PassageRecord], skipped: Sequence[PassageRecord]) -> None:
        """Warn about passages that were not read and findings that were left out."""
        failed = [record for record in records if record.status == "failed"]
        if failed:
            self.runner.warn(
                f"{len(failed)} of {len(records)} passages could not be read: {self._listed(failed)}. "
                f"The first cause: {failed[0].error}",
                "unread",
            )
        if cut_off := [record for record in records if record.cut_off]:
            self.runner.warn(
                f"What {len(cut_off)} passages hold may not be complete, because their records were cut off: "
                f"{self._listed(cut_off)}.",
                "part_cut",
            )
        if skipped and not self.reading.plain:
            self.runner.warn(
                f"{len(skipped)} of {len(records) + len(skipped)} passages were skipped: a search found the question's "
                "words elsewhere. All are read with preference='balanced'.",
                "unread",
            )
        if unfounded := sum(record.unfounded for record in records):
            self.runner.warn(f"Quotations that do not occur in their passage were dropped: {unfounded}.", "quotation")

    def _listed(self, records: Sequence[PassageRecord]) -> str:
        """Return the places of these passages, with neighbours merged."""
        library, places = self.reading.library, list[tuple[int, int, int]]()
        for each in records:
            document, start, end = places[-1] if places else (-1, 0, 0)
            if document == each.document and not library.documents[document].text[end : each.start].strip():
                places[-1] = document, start, each.end
            else:
                places.append((each.document, each.start, each.end))
        named = "; ".join(library.called(*place) for place in places[:_MOST_NAMED])
        more = len(places) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named


def extracted(reading: DocumentRun, records: Sequence[PassageRecord]) -> tuple[str, tuple[Citation, ...]] | None:
    """Return all findings as a list or JSON, with citations; ``None`` for an empty list, where a sentence says so."""
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
        return json.dumps(rows, ensure_ascii=False, indent=2), citations
    lines = [f"- {thing} {citation.label}" for thing, citation in zip(things, citations, strict=True)]
    if reading.task.counts:
        lines = [f"{len(things)}", "", *lines] if lines else ["0"]
    return ("\n".join(lines), citations) if lines else None


def _key(quote: str) -> str:
    """Return a deduplication key, which ignores case and surrounding punctuation."""
    return " ".join(quote.casefold().split()).strip(" .,;:\"'()[]")


_WORD = re.compile(r"\w{2,}")
_SHARE = 4  # at least one in this many passages is read
_FEWEST = 8


def relevant(reading: DocumentRun, places: Sequence[Place]) -> list[Place]:
    """Return the passages worth reading, in order; all of them, with a warning, if bm25s is not installed.

    The best-scoring ones are kept: as many as run in parallel, a quarter of all, or eight, whichever is most.
    """
    keep = max(reading.runner.capabilities.concurrent_calls, len(places) // _SHARE, _FEWEST)
    if len(places) <= keep:
        return list(places)
    try:
        import bm25s  # noqa: PLC0415 - part of an extra, and used for one preference only
    except ImportError:
        reading.runner.warn(
            "All passages were read: bm25s is not installed. Run: pip install 'stretto[documents]'", "option"
        )
        return list(places)
    known: dict[str, str] = {}  # each word once: otherwise they take many times the memory of the text
    words = [
        [known.setdefault(word, word) for word in _WORD.findall(reading.library.text(place).lower())]
        for place in places
    ]
    query = [word for word in _WORD.findall(reading.request.question.lower()) if word in known]
    if not query:
        return list(places)
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    found, _ = index.retrieve([query], k=keep, show_progress=False)
    best = {int(each) for each in found[0]}
    return [place for at, place in enumerate(places) if at in best]
