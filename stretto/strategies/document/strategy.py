"""``document``: reads documents of any length for a question, and answers with the places the answer rests on."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.citation import PassageRecord
from stretto.errors import BackendError
from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.direct import Direct
from stretto.strategies.document.chain import follow_passages
from stretto.strategies.document.collapse import collapsed
from stretto.strategies.document.extract import extracted
from stretto.strategies.document.final import answer_from, answer_whole
from stretto.strategies.document.findings import Findings
from stretto.strategies.document.gate import relevant
from stretto.strategies.document.library import Place
from stretto.strategies.document.mapping import read_passages
from stretto.strategies.document.offer import offer_document
from stretto.strategies.document.pieces import write_pieces
from stretto.strategies.document.run import Reading, reading_of
from stretto.strategies.fan_out import FanOut

__all__ = ["LongDocument"]

_MOST_CHAINED = 24  # passages; more than that, one after the other, take longer than anybody waits


class LongDocument:
    """What fits is sent whole; else passages are read in parallel, or in a chain, and put together."""

    name = "document"

    def offer(self, case: Case) -> Offer | None:
        """Offer to read documents that do not fit into the context window."""
        return offer_document(case)

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:
        """Read, put together, answer. Without documents, answer straight on."""
        if not request.documents:
            runner.warn("Answered straight on: the request has no documents.")
            await Direct().run(request, route, runner)
            return
        await _Run(await reading_of(request, runner)).run()


class _Run:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.runner = reading.runner

    async def run(self) -> None:
        reading = self.reading
        total = sum(place.chunk.tokens + 8 for place in reading.library.places)
        fits = total <= reading.sizes.whole
        if reading.task.kind == "rewrite":
            await write_pieces(reading)
            await self.runner.merge.finish()
        elif fits and reading.task.kind != "extract":
            citing = answer_whole(reading)
            await self.runner.merge.finish()
            self.runner.citations = tuple(citing.citations)
        else:
            await self._read()

    async def _read(self) -> None:
        reading = self.reading
        places, skipped = self._places()
        if reading.task.hops and len(places) <= _MOST_CHAINED:
            records = await follow_passages(reading, places)
        else:
            records = await read_passages(reading, places)
        self._report(records, skipped)
        self.runner.passages = tuple(sorted([*records, *skipped], key=lambda each: (each.document, each.start)))
        if records and all(record.status == "failed" for record in records):
            cause = f"None of {len(records)} passages could be read. {records[0].error}"
            raise BackendError(cause, backend=self.runner.model)
        if reading.task.kind == "extract":
            text, citations = extracted(reading, records)
            self.runner.merge.add(text)
            await self.runner.merge.finish()
            self.runner.citations = tuple(citations)
            return
        findings = Findings(reading.library, records, reading.count)
        citing = answer_from(reading, findings, await collapsed(reading, findings))
        await self.runner.merge.finish()
        self.runner.citations = tuple(citing.citations)
        if citing.unknown:
            self.runner.warn(f"{citing.unknown} citations named no quotation and were left out.")

    def _places(self) -> tuple[list[Place], list[PassageRecord]]:
        """The passages to read, and records of those that are skipped: only with the preference ``fastest``."""
        reading = self.reading
        places = reading.library.places
        if reading.request.preference != "fastest" or reading.task.kind in ("extract", "summarise"):
            return places, []
        chosen = relevant(reading.library, reading.request.question, places, self.runner.capabilities.parallel_slots)
        kept = {place.number for place in chosen}
        skipped = [
            PassageRecord(document=each.document, start=each.chunk.start, end=each.chunk.end, status="skipped")
            for each in places
            if each.number not in kept
        ]
        return chosen, skipped

    def _report(self, records: Sequence[PassageRecord], skipped: Sequence[PassageRecord]) -> None:
        """Say what was not read, and what was dropped."""
        library = self.reading.library
        failed = [record for record in records if record.status == "failed"]
        if failed:
            places = "; ".join(
                f"{library.titles[each.document]}, {library.where(each.document, each.start, each.end)}"
                for each in failed[:20]
            )
            more = f" and {len(failed) - 20} more" if len(failed) > 20 else ""
            self.runner.warn(
                f"{len(failed)} of {len(records)} passages could not be read: {places}{more}. "
                f"The first cause: {failed[0].error}"
            )
        if skipped:
            self.runner.warn(
                f"{len(skipped)} of {len(records) + len(skipped)} passages were skipped: a search found the question's "
                "words elsewhere. All are read with preference='balanced'."
            )
        if unfounded := sum(record.unfounded for record in records):
            self.runner.warn(f"{unfounded} quotations that do not stand in their passage were dropped.")
