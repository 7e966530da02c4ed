"""The last call: streams one answer from the findings, and turns each mark in it into a citation.

If the passages contain nothing on the question, no model is asked: it would invent something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from stretto.backends.base import ModelRequest
from stretto.language.telling import language_of, languages
from stretto.strategies.document.citing import CitationFilter, labelled
from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.findings import Finding, Findings
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.structured.in_form import with_response_format, write_in_form
from stretto.values.answer import Branch, FinishReason
from stretto.values.citation import Citation, PassageRecord
from stretto.values.errors import BackendError, BudgetExceededError, DeadlineExceededError, StrettoError
from stretto.values.request import Message, Request

_PASSAGE_TOKENS = 120  # of a document that is sent whole, per number that can be cited
CITING = "Behind each statement put what it rests on in square brackets, like {one}, or {one}{two} for two of them."
_IN_FORM = "Write the answer in the form that is asked for and nothing else; put no numbers of quotations into it."
NO_FINDINGS = "Nothing in the passages bears on the question."


def answer_from(reading: DocumentRun, findings: Findings, kept: Sequence[Finding], begun: str = "") -> CitationFilter:
    """Stream the answer from these findings; if the call fails, the findings themselves are the answer.

    The citations are complete when the merge is. ``begun`` is the text that the reader already has.
    """

    def instead(branch: Branch) -> str:
        if branch.text.strip() or not kept:
            return ""
        findings.are_the_answer = True
        reading.runner.warn(
            "The answer could not be put together; the findings of the passages replace it.", "part_missing"
        )
        return citing.feed(listed(findings, kept, reading.mark)) + citing.finish()

    shown = findings.all_shown(kept)
    citing = _start(reading, "document_answer", shown, findings.citation_of, instead=instead, begun=begun)
    return citing


async def answer_in_form(reading: DocumentRun, template: str, records: str) -> Any:
    """Write the answer in the request's ``response_format``; return its value.

    A number in square brackets is part of the answer, not a citation.
    """

    def prompt(target: PromptTarget) -> ModelRequest:
        messages = reading.messages(target, template, records=records, form=_IN_FORM)
        return with_response_format(ModelRequest(messages, reads=True), reading.request, target)

    def again(target: PromptTarget, received: str, wrong: str) -> tuple[Message, ...]:
        values = {"question": prompt(target).messages[-1].content, "received": received, "wrong": wrong}
        return reading.messages(target, "again_in_form", documents="", **values)

    spec = _spec(reading, prompt, lambda target, received: None if received.strip() else prompt(target))
    _, parsed = await write_in_form(reading.request, reading.runner, reading.runner.start(spec), again)
    return parsed


def whole(reading: DocumentRun) -> tuple[DocumentRun, str] | None:
    """Return the documents as one prompt shows them, in short numbered passages; ``None`` if they do not fit."""
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
    text = "\n\n".join(lines)
    return (reading, text) if reading.count(text) <= reading.sizes.whole else None


def answer_whole(reading: DocumentRun, documents: str, begun: str = "") -> CitationFilter:
    """Stream the answer about documents that are sent whole, or the rest of an answer that has begun."""
    return _start(reading, "document_whole", documents, reading.library.citation_of, begun=begun)


def _start(
    reading: DocumentRun,
    template: str,
    records: str,
    resolve: Callable[[int], Citation | None],
    *,
    instead: Callable[[Branch], str] = lambda _: "",
    begun: str = "",
) -> CitationFilter:
    runner = reading.runner
    form = CITING.format(one=labelled(reading.mark, 3), two=labelled(reading.mark, 7))
    if reading.task.json:
        form += " Write the answer as JSON."
    messages = reading.messages(runner.target, template, records=records, form=form)

    def prompt(target: PromptTarget, received: str = "") -> ModelRequest:
        before = f"{begun}\n\n{received}" if begun else received
        return reading.rest_of(target, messages, before) if before.strip() else ModelRequest(messages, reads=True)

    answering = runner.start(_spec(reading, prompt, prompt))
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
    """Return the findings as a list in document order, with their citations, without a call."""
    lines, cited = list[str](), dict[int, Citation]()
    for finding in findings.found:
        cited |= {number: findings.citation(number) for number in finding.evidence}
        text = " ".join(finding.answer.split()) or findings.quotes[finding.evidence[0]].quote
        lines.append(f"- {text} {''.join(cited[number].label for number in finding.evidence)}".rstrip())
    return "\n".join(lines), tuple(cited.values())


def listed(findings: Findings, kept: Sequence[Finding], mark: str) -> str:
    """Return the findings as a list with their marks, for when no answer could be written from them."""
    return "\n".join(
        f"- {' '.join(finding.answer.split()) or findings.quotes[finding.evidence[0]].quote} "
        f"{''.join(labelled(mark, number) for number in finding.evidence)}".rstrip()
        for finding in kept
        if finding.answer or finding.evidence
    )


_MOSTLY = 0.5  # of the characters: from here on the documents count as unread
_READABLE = 0.1  # share of its records that a model must write in a readable form


Kind = Literal["nothing", "unmatched", "partly", "unread", "unable"]


def in_words(request: Request, *kinds: Kind) -> str:
    """Return these sentences in the language of the question, or of earlier turns if the question is too short."""
    before = "\n".join(turn.content for turn in request.history if turn.role == "user")
    language = language_of(request.question, otherwise=language_of(before))
    return " ".join(languages().documents[language][kind] for kind in kinds)


def kinds_of(reading: DocumentRun, records: Sequence[PassageRecord], skipped: int) -> tuple[Kind, ...]:
    """Return what to say: that the documents contain nothing, only if a model read all of them."""
    if unable(reading, records):
        return ("unable",)
    failed = any(record.status == "failed" for record in records)
    kind: Kind = "nothing" if not skipped else "partly" if records else "unmatched"
    return (kind, "unread") if failed else (kind,)


def warning_of(reading: DocumentRun, records: Sequence[PassageRecord]) -> str:
    """Return why there are no findings, as a sentence for ``Answer.warnings``."""
    read = sum(record.status == "read" for record in records)
    if unable(reading, records):
        return (
            f"Nothing is known of the documents: {reading.runner.model} wrote a record that can be used for {read} of "
            f"{len(records)} passages. Use a model that keeps to a form."
        )
    if not read and reading.plain:
        return (
            "Nothing was found, and nothing was read: no sentence of the documents holds the words of the question. "
            "Ask in the words of the documents, or with a larger model, which reads all of them."
        )
    return f"Nothing was found: none of the {read} passages that were read holds anything on the question."


def unable(reading: DocumentRun, records: Sequence[PassageRecord]) -> bool:
    """Return whether the model does not keep to the form: fewer than a tenth of its records could be parsed."""
    read = sum(record.status == "read" for record in records)
    formless = reading.failures.count(None)
    return read < _READABLE * (read + formless)


def ends_as(reading: DocumentRun, records: Sequence[PassageRecord]) -> FinishReason | None:
    """Return the finish reason of an answer from these records: not ``stop`` if most of the documents was not read."""
    failed = sum(record.end - record.start for record in records if record.status == "failed")
    if not failed or failed < _MOSTLY * sum(record.end - record.start for record in records):
        return None
    causes: dict[type[StrettoError], FinishReason] = {DeadlineExceededError: "deadline", BudgetExceededError: "budget"}
    found = (reason for kind, reason in causes.items() if any(isinstance(each, kind) for each in reading.failures))
    return next(found, "incomplete")


def all_failed(reading: DocumentRun, records: Sequence[PassageRecord]) -> StrettoError:
    """Return the error for documents of which no passage could be read."""
    if any(isinstance(each, DeadlineExceededError) for each in reading.failures):
        return DeadlineExceededError(
            f"The deadline of {reading.request.deadline_s:g} s left no time to read one of {len(records)} passages. "
            "Allow more with deadline_s."
        )
    cause = f"None of {len(records)} passages could be read. The first cause: {records[0].error}"
    if reading.failures and all(isinstance(each, BudgetExceededError) for each in reading.failures):
        return BudgetExceededError(cause)
    return BackendError(cause, backend=reading.runner.model)
