"""Findings from passages as a prompt shows them, with numbered quotations, shrunk until they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stretto.backends.base import ModelRequest
from stretto.strategies.document.citing import labelled
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.records import COLLAPSE_SCHEMA, json_object, numbers
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.fencing import unfenced
from stretto.values.citation import Citation, Evidence, PassageRecord

_SHORTEST_ANSWER = 80  # characters that trimming leaves
_PARTS = 8  # of the room; findings are cut this small before some are left out


@dataclass(frozen=True)
class Finding:
    """The result of one passage or of several combined: an answer and numbered quotations."""

    answer: str
    evidence: tuple[int, ...]
    confidence: int


class Findings:
    """All quotations that were found, numbered from 1 in the order of the documents."""

    def __init__(self, reading: DocumentRun, records: Sequence[PassageRecord]) -> None:
        self._library = reading.library
        self._place = reading.library.called if reading.trained else reading.library.briefly
        self._count = reading.count
        self._mark = reading.mark
        self.quotes: dict[int, Evidence] = {}
        self.found: list[Finding] = []
        self.are_the_answer = False  # they are the answer, as none could be written from them
        known: dict[tuple[int, int, int], int] = {}  # neighbours may both quote text across their boundary
        for record in records:
            numbers = []
            for evidence in record.evidence:
                span = (evidence.document, evidence.start, evidence.end)
                numbers.append(known.setdefault(span, len(known) + 1))
                self.quotes[numbers[-1]] = evidence
            if record.informative:
                self.found.append(Finding(record.answer, tuple(numbers), record.confidence))

    def citation(self, number: int) -> Citation:
        """Return the citation of a quotation."""
        quote = self.quotes[number]
        return self._library.citation(number, quote.document, quote.start, quote.end)

    def citation_of(self, number: int) -> Citation | None:
        """Return the citation of a quotation; ``None`` if no quotation has this number."""
        return self.citation(number) if number in self.quotes else None

    def shown(self, finding: Finding) -> str:
        """Return one finding as a prompt shows it."""
        lines = [f"Finding, confidence {finding.confidence} of 5: {' '.join(finding.answer.split())}"]
        for number in finding.evidence:
            quote = self.quotes[number]
            place = self._place(quote.document, quote.start, quote.end)
            named = f" ({place})" if place else ""
            lines.append(f'{labelled(self._mark, number)}{named} "{" ".join(quote.quote.split())}"')
        return "\n".join(lines)

    def all_shown(self, findings: Sequence[Finding]) -> str:
        """Return findings as a prompt shows them."""
        return unfenced("\n\n".join(self.shown(each) for each in findings), self._library.fence)

    def tokens(self, *findings: Finding) -> int:
        return sum(self._count(self.shown(each)) + 2 for each in findings)

    def split(self, finding: Finding, most: int) -> list[Finding]:
        """Split a finding with many quotations into several that fit; a quotation that is too long stays alone."""
        if self.tokens(finding) <= most or len(finding.evidence) <= 1:
            return [finding]
        half = len(finding.evidence) // 2
        parts = finding.evidence[:half], finding.evidence[half:]
        return [piece for part in parts for piece in self.split(replace(finding, evidence=part), most)]

    def groups(self, findings: Sequence[Finding], most: int) -> list[list[Finding]]:
        """Group neighbouring findings up to ``most`` tokens."""
        groups: list[list[Finding]] = []
        size = 0
        for finding in (piece for each in findings for piece in self.split(each, most)):
            tokens = self.tokens(finding)
            if not groups or size + tokens > most:
                groups.append([])
                size = 0
            groups[-1].append(finding)
            size += tokens
        return groups

    def trimmed(self, findings: Sequence[Finding], most: int) -> tuple[list[Finding], int]:
        """Drop the least certain findings until the rest fits; return the rest, and how many were dropped."""
        if self.tokens(*findings) <= most:
            return list(findings), 0
        short = (replace(each, answer=each.answer[:_SHORTEST_ANSWER]) if each.evidence else each for each in findings)
        kept = [piece for each in short for piece in self.split(each, most // _PARTS)]
        total = self.tokens(*kept)
        order = sorted(range(len(kept)), key=lambda index: (kept[index].confidence, -index))
        out: set[int] = set()
        for index in order:
            if total <= most or len(out) == len(kept) - 1:
                break
            out.add(index)
            total -= self.tokens(kept[index])
        return [each for index, each in enumerate(kept) if index not in out], len(out)


_MOST_ROUNDS = 4
_KEPT = 0.6  # share of its tokens that a group can keep
_WORDS_PER_TOKEN = 0.6
_FEWEST_WORDS = 20


async def collapsed(reading: DocumentRun, findings: Findings) -> list[Finding]:
    """Combine neighbouring findings until all fit. Quotations are chosen by number, so none is ever reworded.

    A group whose call fails or returns nothing shorter is trimmed by confidence instead, and so is what still does not
    fit after the last round; a warning says how much was left out.
    """
    found = findings.found
    out = 0
    for round_ in range(_MOST_ROUNDS):
        before = findings.tokens(*found)
        if before <= reading.sizes.findings:
            break
        groups = findings.groups(found, reading.sizes.group)
        runs = [
            _put_together(reading, findings, group, f"collapse-{round_ + 1}-{at}") for at, group in enumerate(groups, 1)
        ]
        shorter: list[Finding] = []
        for group, running in zip(groups, runs, strict=True):
            await running.ended()
            kept, dropped = _result(findings, group, running)
            shorter += kept
            out += dropped
        found = shorter
        if findings.tokens(*found) >= before:
            break  # single quotations too long to be combined: only trimming is left
    kept, dropped = findings.trimmed(found, reading.sizes.findings)
    if out + dropped:
        reading.runner.warn(
            f"{out + dropped} findings did not fit into the last prompt and were left out, the least sure first; "
            "Answer.passages holds them.",
            "part_missing",
        )
    return kept


def _put_together(reading: DocumentRun, findings: Findings, group: Sequence[Finding], name: str) -> RunningBranch:
    records = findings.all_shown(group)
    words = max(_FEWEST_WORDS, int(reading.count(records) * _KEPT * _WORDS_PER_TOKEN / 2))

    def prompt(target: PromptTarget) -> ModelRequest:
        messages = reading.messages(target, "document_collapse", records=records, words=str(min(words, 200)))
        schema = COLLAPSE_SCHEMA if target.capabilities.json_schema else None
        return ModelRequest(messages, response_schema=schema, in_words=(), reads=True)

    return reading.start(name, "collapse", prompt, room=reading.sizes.record)


def _result(findings: Findings, group: Sequence[Finding], running: RunningBranch) -> tuple[list[Finding], int]:
    """Return the findings of a group after its call, and how many of them had to be dropped."""
    most = int(findings.tokens(*group) * _KEPT)
    read = json_object(running.text) if running.exception is None else None
    if read is not None:
        there = {number for finding in group for number in finding.evidence}
        kept = [number for number in dict.fromkeys(numbers(read.get("keep"))) if number in there]
        answer = read.get("answer")
        level = read.get("confidence")
        confidence = max(each.confidence for each in group)
        if isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= 5:
            confidence = level
        finding = Finding(answer if isinstance(answer, str) else "", tuple(kept), confidence)
        while kept and findings.tokens(finding) > most:  # the most important come first
            kept.pop()
            finding = Finding(finding.answer, tuple(kept), confidence)
        if (kept or finding.answer) and findings.tokens(finding) <= most:
            return [Finding(finding.answer, tuple(sorted(kept)), confidence)], 0
    return findings.trimmed(group, most)
