"""Records of passages as a prompt shows them, numbered quotations, and how many fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stretto.strategies.document.citations.citing import labelled
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.runtime.fencing import unfenced
from stretto.values.citation import Citation, Evidence, PassageRecord

__all__ = ["Finding", "Findings"]

_SHORTEST_ANSWER = 80  # characters that trimming leaves
_PARTS = 8  # of the room; findings are cut so small before some are left out


@dataclass(frozen=True)
class Finding:
    """The result of one passage, or of several put together: an answer and numbered quotations."""

    answer: str
    evidence: tuple[int, ...]
    confidence: int


class Findings:
    """All quotations that were found, numbered from 1 in the order of the documents.

    Args:
        reading: the run.
        records: of its passages.
    """

    def __init__(self, reading: DocumentRun, records: Sequence[PassageRecord]) -> None:
        self._library = reading.library
        self._place = reading.library.called if reading.trained else reading.library.briefly
        self._count = reading.count
        self._mark = reading.mark
        self.quotes: dict[int, Evidence] = {}
        self.found: list[Finding] = []
        self.stand_alone = False  # they are the answer, since none could be put together from them
        known: dict[tuple[int, int, int], int] = {}  # neighbours may both quote what stands across their border
        for record in records:
            numbers = []
            for evidence in record.evidence:
                span = (evidence.document, evidence.start, evidence.end)
                numbers.append(known.setdefault(span, len(known) + 1))
                self.quotes[numbers[-1]] = evidence
            if record.informative:
                self.found.append(Finding(record.answer, tuple(numbers), record.confidence))

    def citation(self, number: int) -> Citation:
        """The citation of a quotation."""
        quote = self.quotes[number]
        return self._library.citation(number, quote.document, quote.start, quote.end)

    def shown(self, finding: Finding) -> str:
        """One finding as a prompt shows it."""
        lines = [f"Finding, confidence {finding.confidence} of 5: {' '.join(finding.answer.split())}"]
        for number in finding.evidence:
            quote = self.quotes[number]
            place = self._place(quote.document, quote.start, quote.end)
            named = f" ({place})" if place else ""
            lines.append(f'{labelled(self._mark, number)}{named} "{" ".join(quote.quote.split())}"')
        return "\n".join(lines)

    def all_shown(self, findings: Sequence[Finding]) -> str:
        """Several findings as a prompt shows them."""
        return unfenced("\n\n".join(self.shown(each) for each in findings), self._library.fence)

    def tokens(self, *findings: Finding) -> int:
        """Tokens of findings in a prompt."""
        return sum(self._count(self.shown(each)) + 2 for each in findings)

    def split(self, finding: Finding, most: int) -> list[Finding]:
        """Cut a finding with many quotations into several that fit; a quotation that is too long stays alone."""
        if self.tokens(finding) <= most or len(finding.evidence) <= 1:
            return [finding]
        half = len(finding.evidence) // 2
        parts = (
            replace(finding, evidence=finding.evidence[:half]),
            replace(finding, evidence=finding.evidence[half:]),
        )
        return [piece for part in parts for piece in self.split(part, most)]

    def groups(self, findings: Sequence[Finding], most: int) -> list[list[Finding]]:
        """Neighbours together, up to ``most`` tokens."""
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
        """Leave out the least certain findings until the rest fits. Returns the rest, and how many were left out."""
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
