"""Decides how much text each call gets from the context window, the parallel calls and the rate limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stretto.backends.base import Capabilities, Measured
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.prompts import SMALL
from stretto.router.forecast import SHORT_PROMPT
from stretto.strategies.document.task import Task
from stretto.strategies.runtime.parts import THINKING
from stretto.values.errors import ContextOverflowError
from stretto.values.request import Request

_READ_LOCALLY = 150.0  # prompt tokens per second until measured; a 1.5B model on two cores reaches 164
SMALL_PASSAGE = 256  # tokens of a passage in which a small model finds a sentence
_SMALL_RECORD = 96
UNKNOWN_WINDOW = 32_000  # tokens, for an unknown model
MAP_TOKENS = 700  # for a record
EXTRACT_TOKENS = 2_000  # for a record that lists everything
ANSWER_TOKENS = 1_200  # kept free for the answer if the request sets no limit
LEAST_CHUNK = 64
USUAL_LEAST = 400
# Readers miss more in a long passage, mostly in its middle. The caller's preference sets how much may be missed.
LARGEST_CHUNK = {"fastest": 16_000, "balanced": 8_000, "careful": 3_000}
LARGEST_EXTRACT = 4_000
EDGE = 160  # characters of the neighbouring passages that are shown
OUTLINE = 1_200  # characters of the document's beginning and headings that are shown
MARGIN = 0.05
STEPS = 128  # tokens; instructions are rounded up to a multiple, so that a longer question gets the same passages
STEPS_OF_WINDOW = 32  # a step is at most the window divided by this


@dataclass(frozen=True)
class Sizes:
    """Tokens for each kind of call.

    Attributes:
        chunk: the most for a passage.
        record: the most for a record.
        findings: the most for all findings in the last prompt.
        group: the most for records that are combined in one call.
        whole: the most for documents that are sent whole.
        call_overhead: what a call for a passage takes in addition to the passage, including its record.
    """

    chunk: int
    record: int
    findings: int
    group: int
    whole: int
    call_overhead: int


def sizes_of(
    request: Request,
    task: Task,
    able: Capabilities,
    *,
    model: str,
    overhead: int,
    closing: int,
    total: int,
    left: Mapping[str, float],
    measured: Measured | None = None,
    noted: int | None = None,
) -> Sizes:
    """Choose the sizes for a backend.

    Args:
        request: preference and ``max_tokens`` are read.
        task: what to do.
        able: what the backend can do.
        model: its name, for the error.
        overhead: tokens of the prompt for a passage without the passage.
        closing: tokens of the last prompt without the findings.
        total: tokens of all documents.
        left: what the rate limits leave now, by kind.
        measured: the speed that a local backend has measured.
        noted: tokens that the caller allows for a record.

    Raises `ContextOverflowError` if not even a short passage fits in addition to the question.
    """
    window = able.context_window or UNKNOWN_WINDOW
    thinking = THINKING if able.reasoning else 0
    step = min(STEPS, max(1, window // STEPS_OF_WINDOW))
    overhead = math.ceil(overhead / step) * step
    most = EXTRACT_TOKENS if task.kind == "extract" else MAP_TOKENS
    if task.is_quoted(able.prompt_family):
        most = _SMALL_RECORD
    record = min(noted or most, max(48, window // 6)) + thinking
    room = int((window - record - overhead) * (1 - MARGIN))
    if room < LEAST_CHUNK:
        raise ContextOverflowError(
            f"The question leaves {max(0, room)} tokens of the {window} of {model} for a passage, and "
            f"{LEAST_CHUNK} are the least. Ask a shorter question, or use a model with a larger window.",
            backend=model,
        )
    well = read_well(able)
    usual = min(LARGEST_CHUNK[request.preference], well or window)
    largest = min(room, min(usual, LARGEST_EXTRACT) if task.kind == "extract" else usual)
    chunk = _chunk(total, overhead + record, room, largest, slots=useful_slots(able, measured), left=left)
    answer = min(request.options.max_tokens or ANSWER_TOKENS, window // 3) + thinking
    findings = max(LEAST_CHUNK, int((window - answer - closing) * (1 - MARGIN)))
    whole = findings if well is None else min(findings, well)
    return Sizes(
        chunk=chunk,
        record=record,
        findings=min(findings, 12_000),
        group=max(LEAST_CHUNK, min(room, 6_000)),
        whole=whole,
        call_overhead=overhead + record,
    )


def read_well(able: Capabilities) -> int | None:
    """Return how many tokens of a passage the model reads well, if fewer than its window."""
    return able.passage_tokens or (SMALL_PASSAGE if able.prompt_family == SMALL else None)


def reading_s(model: str, measured: Measured | None, tokens: int) -> float:
    """Return the seconds that a model in this process takes to read these tokens; 0 for a server (negligible)."""
    if not model.startswith("local:"):
        return 0.0
    times = (measured or Measured()).step_ms
    return tokens * StepCost(times)(SHORT_PROMPT) / SHORT_PROMPT / 1000 if times else tokens / _READ_LOCALLY


def useful_slots(able: Capabilities, measured: Measured | None = None) -> int:
    """Return how many calls are worth running in parallel: on a local model, as many as add little time to a forward.

    It is derived from the measured step times: if a forward pass of eight rows takes four times as long as one of a
    single row, eight parallel requests finish no sooner than on two slots at full speed.
    """
    slots = max(1, able.concurrent_calls)
    times = (measured or Measured()).step_ms
    rows = max((rows for rows in times if rows <= slots), default=0)
    if 1 not in times or rows <= 1 or times[rows] <= 0:
        return slots
    return min(slots, max(1, round(rows * times[1] / times[rows])))


def _chunk(total: int, other: int, room: int, largest: int, *, slots: int, left: Mapping[str, float]) -> int:
    """Return a passage's size in tokens: as small as the parallel calls allow, as large as the rate limits demand."""
    requests = left.get("requests", math.inf)
    slots = min(slots, max(1, math.floor(min(requests, 1e9))))
    chunk = min(largest, max(math.ceil(total / slots), min(USUAL_LEAST, largest)))  # one wave, if that is not too short
    tokens = min(left.get("tokens", math.inf), left.get("input-tokens", math.inf))
    calls = math.ceil(total / chunk)
    if calls > requests or total + calls * other > tokens:  # these limits bind: send the instructions in fewer calls
        return largest if calls <= requests else min(room, max(largest, math.ceil(total / max(1.0, requests))))
    return chunk
