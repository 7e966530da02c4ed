"""The last call: streams one answer from what was found; each mark in it becomes a citation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.strategies.document.citations.citing import CitationFilter, labelled
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.findings import Finding, Findings
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.structured.in_form import held_to_format, write_in_form
from stretto.values.answer import Branch
from stretto.values.citation import Citation
from stretto.values.request import Message

__all__ = [
    "CITING",
    "NO_FINDINGS",
    "answer_from",
    "answer_in_form",
    "answer_whole",
    "as_found",
    "listed",
    "whole",
]

_PASSAGE_TOKENS = 120  # of a document that is sent whole, for each number that can be cited
CITING = "Behind each statement put what it rests on in square brackets, like {one}, or {one}{two} for two of them."
_IN_FORM = "Write the answer in the form that is asked for and nothing else; put no numbers of quotations into it."
NO_FINDINGS = "Nothing in the passages bears on the question."


def answer_from(reading: DocumentRun, findings: Findings, kept: Sequence[Finding], begun: str = "") -> CitationFilter:
    """Stream the answer from these findings. If the call fails, the findings themselves are the answer.

    The citations are complete when the merge is. ``begun`` is what the reader has of it already.
    """

    def resolve(number: int) -> Citation | None:
        return findings.citation(number) if number in findings.quotes else None

    def instead(branch: Branch) -> str:
        if branch.text.strip() or not kept:
            return ""
        findings.stand_alone = True
        reading.runner.warn(
            "The answer could not be put together; the findings of the passages stand in its place.", "part_missing"
        )
        return citing.feed(listed(findings, kept, reading.mark)) + citing.finish()

    citing = _start(reading, "document_answer", findings.all_shown(kept), resolve, instead=instead, begun=begun)
    return citing


async def answer_in_form(reading: DocumentRun, template: str, said: str) -> Any:
    """Write the answer in the request's ``response_format``; return its value.

    A number in square brackets is part of it, no citation.
    """

    def prompt(target: PromptTarget) -> ModelRequest:
        messages = reading.messages(target, template, records=said, form=_IN_FORM)
        return held_to_format(ModelRequest(messages, reads=True), reading.request, target)

    def again(target: PromptTarget, received: str, wrong: str) -> tuple[Message, ...]:
        values = {"question": prompt(target).messages[-1].content, "received": received, "wrong": wrong}
        return reading.messages(target, "again_in_form", documents="", **values)

    spec = _spec(reading, prompt, lambda target, received: None if received.strip() else prompt(target))
    _, parsed = await write_in_form(reading.request, reading.runner, reading.runner.start(spec), again)
    return parsed


def whole(reading: DocumentRun) -> tuple[DocumentRun, str] | None:
    """The documents as one prompt shows them, in short numbered passages; ``None`` where they do not fit."""
    if sum(place.chunk.tokens for place in reading.library.places) > reading.sizes.whole:
        return None
    reading = reading.cut(_PASSAGE_TOKENS)
    library = reading.library
    lines, titled = [], None
    for place in library.places:
        if place.document != titled:
            titled = place.document
            lines.append(f'Document "{library.titles[titled]}":')
        lines.append(f"{labelled(reading.mark, place.number)} {library.text(place)}")
    said = "\n\n".join(lines)
    return (reading, said) if reading.count(said) <= reading.sizes.whole else None


def answer_whole(reading: DocumentRun, said: str, begun: str = "") -> CitationFilter:
    """Stream the answer to documents that are sent as they are, or the rest of one that has begun."""
    library = reading.library

    def resolve(number: int) -> Citation | None:
        if not 0 < number <= len(library.places):
            return None
        place = library.places[number - 1]
        return library.citation(number, place.document, place.chunk.start, place.chunk.end)

    return _start(reading, "document_whole", said, resolve, begun=begun)


def _start(
    reading: DocumentRun,
    template: str,
    said: str,
    resolve: Callable[[int], Citation | None],
    *,
    instead: Callable[[Branch], str] = lambda _: "",
    begun: str = "",
) -> CitationFilter:
    runner = reading.runner
    form = CITING.format(one=labelled(reading.mark, 3), two=labelled(reading.mark, 7))
    if reading.task.json:
        form += " Write the answer as JSON."
    messages = reading.messages(runner.target, template, records=said, form=form)

    def asked(target: PromptTarget, received: str = "") -> ModelRequest:
        before = f"{begun}\n\n{received}" if begun else received
        return reading.rest_of(target, messages, before) if before.strip() else ModelRequest(messages, reads=True)

    answering = runner.start(_spec(reading, asked, asked))
    prompted = "\n".join(message.content for message in messages)
    citing = CitationFilter(resolve, mark=reading.mark, prompt=prompted)
    runner.merge.add_branch(answering, filter_=citing, ending=instead)
    return citing


def _spec(
    reading: DocumentRun,
    prompt: Callable[[PromptTarget], ModelRequest],
    fallback_prompt: Callable[[PromptTarget, str], ModelRequest | None],
) -> BranchSpec:
    return BranchSpec(
        id="answer",
        kind="direct",
        label="The answer",
        prompt=prompt,
        options=reading.request.options,
        fallback_prompt=fallback_prompt,
        allow_refusal=True,
        ledger=reading.puts_together,
    )


def as_found(findings: Findings) -> tuple[str, tuple[Citation, ...]]:
    """What the passages hold, as a list in the order of the documents, and the citations in it; no call is made."""
    lines, cited = list[str](), dict[int, Citation]()
    for finding in findings.found:
        cited |= {number: findings.citation(number) for number in finding.evidence}
        said = " ".join(finding.answer.split()) or findings.quotes[finding.evidence[0]].quote
        lines.append(f"- {said} {''.join(cited[number].label for number in finding.evidence)}".rstrip())
    return "\n".join(lines), tuple(cited.values())


def listed(findings: Findings, kept: Sequence[Finding], mark: str) -> str:
    """The findings as a list with their marks, where nothing could be written from them."""
    return "\n".join(
        f"- {' '.join(finding.answer.split()) or findings.quotes[finding.evidence[0]].quote} "
        f"{''.join(labelled(mark, number) for number in finding.evidence)}".rstrip()
        for finding in kept
        if finding.answer or finding.evidence
    )
