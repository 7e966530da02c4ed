"""``document``: reads documents of any length for a question, and answers with the places the answer rests on."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from stretto.backends.base import Prompt
from stretto.citation import PassageRecord
from stretto.errors import BackendError, InvalidRequestError
from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.direct import Direct
from stretto.strategies.document.chain import MOST_IN_ORDER, follow_passages, read_in_rounds
from stretto.strategies.document.citing import CitationFilter
from stretto.strategies.document.collapse import collapsed
from stretto.strategies.document.document_cache import DocumentCache
from stretto.strategies.document.extract import extracted
from stretto.strategies.document.final import answer_from, answer_in_form, answer_whole, said_of, whole
from stretto.strategies.document.findings import Findings
from stretto.strategies.document.gate import relevant
from stretto.strategies.document.library import Place
from stretto.strategies.document.mapping import read_passages
from stretto.strategies.document.narrowing import narrowed
from stretto.strategies.document.offer import offer_document
from stretto.strategies.document.pieces import write_pieces
from stretto.strategies.document.run import Reading, reading_of
from stretto.strategies.fan_out import FanOut
from stretto.strategies.in_form import held_to_format

__all__ = ["LongDocument"]

_MOST_NAMED = 20  # places in a warning; Answer.passages has all


class LongDocument:
    """Sends documents whole if they fit; else reads passages in parallel or in a chain, and combines the results."""

    name = "document"

    def __init__(self) -> None:
        self._cache = DocumentCache()

    def offer(self, case: Case) -> Offer | None:
        """Offer to read documents that do not fit into the context window."""
        return offer_document(case)

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:
        """Read the documents, combine what was found, and answer. Without documents, answer directly."""
        if not request.documents:
            runner.warn("Answered straight on: the request has no documents.")
            await Direct().run(request, route, runner)
            return
        await _Run(await reading_of(request, runner, self._cache)).run()


class _Run:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.runner = reading.runner
        self.in_form = reading.request.options.response_format is not None

    async def run(self) -> None:
        reading = self.reading
        if self.in_form:
            held_to_format(Prompt(()), reading.request, self.runner)  # before a call is made in vain
        if reading.task.kind == "rewrite":
            if self.in_form:
                raise InvalidRequestError(
                    "response_format holds an answer as a whole, and a document is rewritten piece "
                    "by piece. Leave it out, or use strategy='direct'."
                )
            await write_pieces(reading)
            await self.runner.merge.finish()
            return
        # Beside the event loop: counting what a large window holds takes a moment.
        fitting = None if reading.task.kind == "extract" else await anyio.to_thread.run_sync(whole, reading)
        if fitting is not None and self.in_form:
            await answer_in_form(fitting[0], "document_whole", fitting[1])
            await self.runner.merge.finish()
        elif fitting is not None:
            await self._end(answer_whole(*fitting))
        else:
            await self._read()

    async def _read(self) -> None:
        reading = self.reading
        places, skipped = await anyio.to_thread.run_sync(self._places)
        records = await self._records(places)
        self._report(records, skipped)
        self.runner.passages = tuple(sorted([*records, *skipped], key=lambda each: (each.document, each.start)))
        if records and all(record.status == "failed" for record in records):
            cause = f"None of {len(records)} passages could be read. The first cause: {records[0].error}"
            raise BackendError(cause, backend=self.runner.model)
        if reading.task.kind == "extract" and not self.in_form and (extract := extracted(reading, records)):
            self.runner.merge.add(extract.text)
            await self.runner.merge.finish()
            self.runner.citations = extract.citations
            return
        place = reading.library.called if reading.trained else None
        findings = Findings(reading.library, records, reading.count, place=place)
        kept = await collapsed(reading, findings)
        if not self.in_form:
            await self._end(answer_from(reading, findings, kept))
            return
        await answer_in_form(reading, "document_answer", said_of(findings, kept))
        await self.runner.merge.finish()
        quotes = [findings.quotes[number] for number in sorted({each for one in kept for each in one.evidence})]
        self.runner.citations = tuple(reading.library.citation(each.document, each.start, each.end) for each in quotes)

    async def _records(self, places: Sequence[Place]) -> list[PassageRecord]:
        if not self.reading.task.hops:
            return await read_passages(self.reading, places)
        if len(places) <= MOST_IN_ORDER:
            return await follow_passages(self.reading, places)
        return await read_in_rounds(self.reading, places)

    async def _end(self, citing: CitationFilter) -> None:
        """Wait for the answer, and report its citations."""
        await self.runner.merge.finish()
        self.runner.citations = tuple(citing.citations)
        if citing.unknown:
            self.runner.warn(f"{citing.unknown} citations named no passage and were left out.")

    def _places(self) -> tuple[Sequence[Place], list[PassageRecord]]:
        """The passages to read, and records of those that are skipped: only with the preference ``fastest``."""
        reading = self.reading
        places = reading.library.places
        if reading.task.kind == "summarise":
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
                f"The first cause: {failed[0].error}"
            )
        if cut_off := [record for record in records if record.cut_off]:
            self.runner.warn(
                f"What {len(cut_off)} passages hold may not be complete, because their records were cut off: "
                f"{self._listed(cut_off)}."
            )
        if skipped:
            self.runner.warn(
                f"{len(skipped)} of {len(records) + len(skipped)} passages were skipped: a search found the question's "
                "words elsewhere. All are read with preference='balanced'."
            )
        if unfounded := sum(record.unfounded for record in records):
            self.runner.warn(f"{unfounded} quotations that do not stand in their passage were dropped.")

    def _listed(self, records: Sequence[PassageRecord]) -> str:
        """The places of these passages, neighbours as one."""
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
