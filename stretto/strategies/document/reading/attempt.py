"""How reading a passage ended, and what to try next. A passage counts as read only if its record is complete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stretto.strategies.document.document_reading import DocumentRun
from stretto.strategies.document.library import Place
from stretto.strategies.document.reading.copying import copied
from stretto.strategies.document.reading.records import record_in
from stretto.strategies.runtime.branch import RunningBranch
from stretto.values.errors import BudgetExceededError, DeadlineExceededError

__all__ = ["Tries", "next_tries", "outcome_of"]

_AGAIN = 2  # readings after one that broke off or makes no sense
_HALVINGS = 3  # of a passage whose record does not fit
_LEAST = 16  # tokens of a passage that is worth halving
_NO_RECORD = "What the model wrote of it is not the JSON that it was asked for. Use a model that keeps to that."


@dataclass(frozen=True)
class Tries:
    """A passage to read, how often it may be read again, and how often cut in two."""

    place: Place
    again: int = _AGAIN
    halvings: int = _HALVINGS


@dataclass(frozen=True)
class Outcome:
    """The outcome of one reading.

    Attributes:
        found: the record as the model wrote it; ``None`` where there is none.
        cut_off: it ended at its length: there may be more in the passage.
        error: why there is none.
        hopeless: reading it again cannot help.
    """

    found: dict[str, Any] | None
    cut_off: bool = False
    error: str = ""
    hopeless: bool = False


def outcome_of(running: RunningBranch, place: Place, reading: DocumentRun) -> Outcome:
    """The outcome of a branch that has ended."""
    error = running.exception
    if error is not None:
        out_of_means = isinstance(error, (DeadlineExceededError, BudgetExceededError))
        # Without a word received, the fan-out has asked twice already.
        return Outcome(None, error=str(error), hopeless=out_of_means or not running.text.strip())
    if reading.plain:
        # What is no sentence of the passage is dropped as a quotation that does not stand in it, and counted.
        return Outcome(copied(running.text, place, reading) or {"evidence": [running.text], "answer": ""})
    found = record_in(running.text)
    if found is None and reading.task.kind in ("answer", "compare"):
        found = copied(running.text, place, reading)
    cut_off = running.finish_reason in ("length", "budget")
    return Outcome(found, cut_off, "" if found else _NO_RECORD)


def next_tries(reading: DocumentRun, tries: Tries, outcome: Outcome) -> list[Tries]:
    """What to read instead: the halves of a passage whose record does not fit, or the passage again."""
    if outcome.cut_off and tries.halvings and tries.place.chunk.tokens > _LEAST:
        parts = reading.halves(tries.place)
        if len(parts) > 1:
            return [Tries(part, tries.again, tries.halvings - 1) for part in parts]
    if outcome.found is None and not outcome.hopeless and tries.again:
        return [replace(tries, again=tries.again - 1)]
    return []
