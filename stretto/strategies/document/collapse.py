"""Shrinks findings until they fit into one prompt, in rounds; the calls of a round run in parallel."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.backends.base import ModelRequest
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.findings import Finding, Findings
from stretto.strategies.document.reading.records import COLLAPSE_SCHEMA, json_object, numbers
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget

__all__ = ["collapsed"]

_MOST_ROUNDS = 4
_SHRINK = 0.6  # of its tokens a group may keep
_WORDS_PER_TOKEN = 0.6
_FEWEST_WORDS = 20


async def collapsed(reading: DocumentRun, findings: Findings) -> list[Finding]:
    """Put neighbouring findings together until all fit. Quotations are chosen by number: none is ever reworded.

    A group whose call fails, or that comes back no shorter, is trimmed by confidence instead, and so is what still
    does not fit after the last round; a warning says how much was left out.
    """
    found = findings.found
    out = 0
    for round_ in range(_MOST_ROUNDS):
        before = findings.tokens(*found)
        if before <= reading.sizes.findings:
            break
        groups = findings.groups(found, reading.sizes.group)
        runs = [_start(reading, findings, group, f"collapse-{round_ + 1}-{at}") for at, group in enumerate(groups, 1)]
        shorter: list[Finding] = []
        for group, running in zip(groups, runs, strict=True):
            await running.ended()
            kept, dropped = _result(findings, group, running)
            shorter += kept
            out += dropped
        found = shorter
        if findings.tokens(*found) >= before:
            break  # single quotations too long to be put together: trimming is all that is left
    kept, dropped = findings.trimmed(found, reading.sizes.findings)
    if out + dropped:
        reading.runner.warn(
            f"{out + dropped} findings did not fit into the last prompt and were left out, the least sure first; "
            "Answer.passages holds them.",
            "part_missing",
        )
    return kept


def _start(reading: DocumentRun, findings: Findings, group: Sequence[Finding], name: str) -> RunningBranch:
    said = findings.all_shown(group)
    words = max(_FEWEST_WORDS, int(reading.count(said) * _SHRINK * _WORDS_PER_TOKEN / 2))

    def prompt(target: PromptTarget) -> ModelRequest:
        messages = reading.messages(target, "document_collapse", records=said, words=str(min(words, 200)))
        schema = COLLAPSE_SCHEMA if target.capabilities.json_schema else None
        return ModelRequest(messages, response_schema=schema, in_words=(), reads=True)

    return reading.start(name, "collapse", prompt, room=reading.sizes.record)


def _result(findings: Findings, group: Sequence[Finding], running: RunningBranch) -> tuple[list[Finding], int]:
    """The findings of a group after its call, and how many of them had to be left out."""
    most = int(findings.tokens(*group) * _SHRINK)
    read = json_object(running.text) if running.exception is None else None
    if read is not None:
        there = {number for finding in group for number in finding.evidence}
        kept = [number for number in dict.fromkeys(numbers(read.get("keep"))) if number in there]
        answer = read.get("answer")
        level = read.get("confidence")
        confidence = (
            level
            if isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= 5
            else max(each.confidence for each in group)
        )
        finding = Finding(answer if isinstance(answer, str) else "", tuple(kept), confidence)
        while kept and findings.tokens(finding) > most:  # the most important come first
            kept.pop()
            finding = Finding(finding.answer, tuple(kept), confidence)
        if (kept or finding.answer) and findings.tokens(finding) <= most:
            return [Finding(finding.answer, tuple(sorted(kept)), confidence)], 0
    return findings.trimmed(group, most)
