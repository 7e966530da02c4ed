"""``document``: reads documents of any length for a question, and answers with the places the answer rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stretto.backends.base import ModelRequest
from stretto.citation import PassageRecord
from stretto.errors import InvalidRequestError
from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.router.standing import Kind
from stretto.strategies.direct import Direct
from stretto.strategies.document.chain import MOST_IN_ORDER, follow_passages, read_in_rounds
from stretto.strategies.document.citing import CitationFilter
from stretto.strategies.document.collapse import collapsed
from stretto.strategies.document.document_cache import DocumentCache
from stretto.strategies.document.extract import extracted
from stretto.strategies.document.final import NO_FINDINGS, answer_from, answer_in_form, answer_whole, as_found, whole
from stretto.strategies.document.findings import Findings
from stretto.strategies.document.library import Place
from stretto.strategies.document.mapping import read_passages
from stretto.strategies.document.narrowing import narrowed
from stretto.strategies.document.nothing import all_failed, ends_as, in_words, unable, warning_of
from stretto.strategies.document.offer import offer_document
from stretto.strategies.document.options import DocumentOptions
from stretto.strategies.document.passage_filter import relevant
from stretto.strategies.document.pieces import write_pieces
from stretto.strategies.document.plainly import quoted_answer, read_plainly
from stretto.strategies.document.run import Reading, reading_of
from stretto.strategies.in_form import held_to_format
from stretto.strategies.runner import Runner

__all__ = ["LongDocument"]

_MOST_NAMED = 20  # places in a warning; Answer.passages has all


class LongDocument:
    """Sends documents whole if they fit; else reads passages in parallel or in a chain, and combines the results."""

    name = "document"
    options = DocumentOptions
    """What ``strategy_options`` may hold."""

    def __init__(self) -> None:
        self._cache = DocumentCache()

    def offer(self, case: Case) -> Offer | None:
        """Offer to read documents that do not fit into the context window."""
        return offer_document(case)

    async def run(self, request: Request, route: Route, runner: Runner) -> None:
        """Read the documents, combine what was found, and answer. Without documents, answer directly."""
        if not request.documents:
            runner.warn("Answered in one piece: the request has no documents.")
            await Direct().run(request, route, runner)
            return
        await _Run(await reading_of(request, runner, self._cache)).run()


class _Run:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.runner = reading.runner
        self.in_form = reading.request.options.response_format is not None
        self.stops = reading.options.stop_after == "reading"

    async def run(self) -> None:
        reading = self.reading
        if self.stops and (self.in_form or reading.task.kind == "rewrite"):
            what = "response_format holds an answer" if self.in_form else "a document is rewritten piece by piece"
            raise InvalidRequestError(
                f"strategy_options= holds stop_after='reading', which cannot be used: {what}, and the reading alone "
                "gives none. Leave out one of the two."
            )
        if self.in_form:
            held_to_format(ModelRequest(()), reading.request, self.runner)  # before a call is made in vain
        if reading.task.kind == "rewrite":
            if self.in_form:
                raise InvalidRequestError(
                    "response_format holds an answer as a whole, and a document is rewritten piece "
                    "by piece. Leave it out, or use strategy='direct'."
                )
            await write_pieces(reading)
            await self.runner.merge.finish()
            return
        in_passages = reading.task.kind == "extract" or reading.plain or self.stops
        fitting = None if in_passages else await reading.in_thread(whole)
        if fitting is not None and self.in_form:
            await answer_in_form(replace(fitting[0], count=reading.count), "document_whole", fitting[1])
            await self.runner.merge.finish()
        elif fitting is not None:
            await self._end(answer_whole(replace(fitting[0], count=reading.count), fitting[1]))
        else:
            await self._read()

    async def _read(self) -> None:
        reading = self.reading
        places, skipped = await reading.in_thread(self._places)
        records = await self._records(places)
        skipped += [record for record in records if record.status == "skipped"]
        records = [record for record in records if record.status != "skipped"]
        self._report(records, skipped)
        self.runner.passages = tuple(sorted([*records, *skipped], key=lambda each: (each.document, each.start)))
        if records and all(record.status == "failed" for record in records):
            raise all_failed(reading, records)
        self.runner.ends_as = ends_as(reading, records)
        if any(record.status == "read" for record in records) or None in reading.failures:
            self.runner.known.note_standing(Kind.RECORDS, reading.request, held=not unable(reading, records))
        if not any(record.informative for record in records):
            await self._say_nothing(records)
            return
        if reading.task.kind == "extract" and not self.in_form and (extract := extracted(reading, records)):
            await self._write(extract.text)
            self.runner.citations = extract.citations
            return
        findings = Findings(reading, records)
        if reading.plain and not self.in_form:
            await self._quote(findings)
            return
        if self.stops:
            text, self.runner.citations = as_found(findings)
            await self._write(text)
            return
        kept = await collapsed(reading, findings)
        if not self.in_form:
            await self._end(answer_from(reading, findings, kept))
            if not self.runner.citations and reading.task.kind != "summarise":
                self.runner.warn(
                    f"The answer names none of the {len(findings.quotes)} quotations that it was given. They are in "
                    "Answer.passages."
                )
            return
        await answer_in_form(reading, "document_answer", findings.all_shown(kept))
        await self.runner.merge.finish()
        numbers = sorted({number for finding in kept for number in finding.evidence})
        self.runner.citations = tuple(findings.citation(number) for number in numbers)

    async def _records(self, places: Sequence[Place]) -> list[PassageRecord]:
        if self.reading.plain:
            return await read_plainly(self.reading, places)
        if not self.reading.task.hops:
            return await read_passages(self.reading, places)
        if len(places) <= MOST_IN_ORDER:
            return await follow_passages(self.reading, places)
        return await read_in_rounds(self.reading, places)

    async def _say_nothing(self, records: Sequence[PassageRecord]) -> None:
        """Say that nothing was found, or that the model could not search, in the form that was asked for."""
        reading, request = self.reading, self.reading.request
        cannot = unable(reading, records)
        unread = any(record.status == "failed" for record in records)
        self.runner.warn(warning_of(reading, records))
        self.runner.ends_as = self.runner.ends_as or ("incomplete" if cannot else "nothing_found")
        if self.in_form:
            await answer_in_form(reading, "document_answer", NO_FINDINGS)
            self.runner.warn("No part of the documents supports what the answer says in its form.")
            await self.runner.merge.finish()
            return
        if cannot:
            said = in_words(request, "unable")
        else:
            said = in_words(request, "nothing", "unread") if unread else in_words(request, "nothing")
        task = reading.task
        if task.kind == "extract" and not cannot and (task.json or task.counts):
            empty = "[]" if task.json else "0"
            said = f"{empty}\n\n{said}" if task.counts and unread else empty
        await self._write(said)

    async def _quote(self, findings: Findings) -> None:
        """Answer with the quotations themselves: a sentence of a small model's own might say what none of them says."""
        quoted = quoted_answer(self.reading, findings)
        citations = tuple(findings.citation(number) for _, number in quoted)
        await self._write(
            "\n\n".join(f"{text} {each.label}" for (text, _), each in zip(quoted, citations, strict=True))
        )
        self.runner.citations = citations
        self.runner.warn(
            f"The answer is quoted from the documents: {self.runner.model} is too small to put it into words."
        )

    async def _write(self, text: str) -> None:
        """Write an answer without the model."""
        self.runner.wrote = True
        self.runner.merge.add(text)
        await self.runner.merge.finish()

    async def _end(self, citing: CitationFilter) -> None:
        """Wait for the answer, and report its citations."""
        await self.runner.merge.finish()
        self.runner.citations = tuple(citing.citations)
        if citing.unknown:
            self.runner.warn(f"{citing.unknown} citations named no passage and were left out.")

    def _places(self, reading: Reading) -> tuple[Sequence[Place], list[PassageRecord]]:
        """The passages to read, and records of those that are skipped: only with the preference ``fastest``."""
        places = reading.library.places
        if reading.task.kind == "summarise":
            return places, []
        if reading.plain:
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
        if skipped and not self.reading.plain:
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
