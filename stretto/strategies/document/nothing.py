"""What an answer says where the passages hold nothing on the question. No model is asked: it would invent something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stretto.language.telling import language_of, languages
from stretto.strategies.document.document_reading import DocumentRun
from stretto.values.answer import FinishReason
from stretto.values.citation import PassageRecord
from stretto.values.errors import BackendError, BudgetExceededError, DeadlineExceededError, StrettoError
from stretto.values.request import Request

__all__ = ["all_failed", "ends_as", "in_words", "kinds_of", "unable", "warning_of"]

_MOSTLY = 0.5  # of the characters: from here on the documents count as unread
_HELD = 0.1  # of its records that a model must write in a form that can be read


Kind = Literal["nothing", "unmatched", "partly", "unread", "unable"]


def in_words(request: Request, *kinds: Kind) -> str:
    """These sentences in the language of the question, or of the turns before it where the question is too short."""
    before = "\n".join(turn.content for turn in request.history if turn.role == "user")
    language = language_of(request.question, otherwise=language_of(before))
    return " ".join(languages().documents[language][kind] for kind in kinds)


def kinds_of(reading: DocumentRun, records: Sequence[PassageRecord], skipped: int) -> tuple[Kind, ...]:
    """What is to be said. The documents tell nothing only if a model read all of them."""
    if unable(reading, records):
        return ("unable",)
    failed = any(record.status == "failed" for record in records)
    said: Kind = "nothing" if not skipped else "partly" if records else "unmatched"
    return (said, "unread") if failed else (said,)


def warning_of(reading: DocumentRun, records: Sequence[PassageRecord]) -> str:
    """Why there are no findings, as a sentence for ``Answer.warnings``."""
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
    """Whether the model does not hold the form: fewer than a tenth of its records could be read."""
    read = sum(record.status == "read" for record in records)
    formless = reading.failures.count(None)
    return read < _HELD * (read + formless)


def ends_as(reading: DocumentRun, records: Sequence[PassageRecord]) -> FinishReason | None:
    """How an answer ends that rests on these records: not with ``stop`` where most of the documents was not read."""
    failed = sum(record.end - record.start for record in records if record.status == "failed")
    if not failed or failed < _MOSTLY * sum(record.end - record.start for record in records):
        return None
    causes: dict[type[StrettoError], FinishReason] = {DeadlineExceededError: "deadline", BudgetExceededError: "budget"}
    found = (reason for kind, reason in causes.items() if any(isinstance(each, kind) for each in reading.failures))
    return next(found, "incomplete")


def all_failed(reading: DocumentRun, records: Sequence[PassageRecord]) -> StrettoError:
    """The error for documents of which no passage could be read."""
    if any(isinstance(each, DeadlineExceededError) for each in reading.failures):
        return DeadlineExceededError(
            f"The deadline of {reading.request.deadline_s:g} s left no time to read one of {len(records)} passages. "
            "Allow more with deadline_s."
        )
    cause = f"None of {len(records)} passages could be read. The first cause: {records[0].error}"
    if reading.failures and all(isinstance(each, BudgetExceededError) for each in reading.failures):
        return BudgetExceededError(cause)
    return BackendError(cause, backend=reading.runner.model)
