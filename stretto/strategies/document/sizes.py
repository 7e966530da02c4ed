"""Decides how much text each call gets, by the context window, the parallel calls and the rate limits."""

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

_READ_LOCALLY = 150.0  # prompt tokens a second, while not measured; a model of 1.5B on two cores has 164
SMALL_PASSAGE = 256  # tokens of a passage in which such a model finds a sentence
_SMALL_RECORD = 96
UNKNOWN_WINDOW = 32_000  # tokens; of an unknown model
MAP_TOKENS = 700  # a record may have
EXTRACT_TOKENS = 2_000  # a record that lists everything
ANSWER_TOKENS = 1_200  # kept free for the answer where the request names no limit
LEAST_CHUNK = 64
USUAL_LEAST = 400
# Readers miss more of a long passage, mostly in its middle. The caller's preference says how much may be missed.
LARGEST_CHUNK = {"fastest": 16_000, "balanced": 8_000, "careful": 3_000}
LARGEST_EXTRACT = 4_000
EDGE = 160  # characters of the neighbouring passages that are shown
OUTLINE = 1_200  # characters of the document's beginning and headings that are shown
MARGIN = 0.05
STEPS = 128  # tokens to which the instructions are rounded up: a longer question still gets the same passages
STEPS_OF_WINDOW = 32  # a step is no more than this part of a small window


@dataclass(frozen=True)
class Sizes:
    """Tokens for each kind of call.

    Attributes:
        chunk: of a passage at most.
        record: that a record may have.
        findings: that all findings together may have in the last prompt.
        group: of records that are put together in one call.
        whole: that documents may have to be sent as they are.
        beside: of a call for a passage beside the passage itself, its record included.
    """

    chunk: int
    record: int
    findings: int
    group: int
    whole: int
    beside: int


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
    """Fit the sizes to a backend.

    Args:
        request: preference and ``max_tokens`` are read.
        task: what is to be done.
        able: what the backend can do.
        model: its name, for the error.
        overhead: tokens of the prompt for a passage without the passage.
        closing: tokens of the last prompt without the findings.
        total: tokens of all documents.
        left: what the rate limits leave now, by kind.
        measured: what a local backend has measured of its speed.
        noted: tokens that the caller allows a record.

    Raises `ContextOverflowError` if not even a short passage fits beside the question.
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
        beside=overhead + record,
    )


def read_well(able: Capabilities) -> int | None:
    """Tokens of a passage that the model reads well, if they are fewer than its window."""
    return able.passage_tokens or (SMALL_PASSAGE if able.prompt_family == SMALL else None)


def reading_s(model: str, measured: Measured | None, tokens: int) -> float:
    """Seconds in which a model in this process reads so many tokens; 0 for a server, which takes none that count."""
    if not model.startswith("local:"):
        return 0.0
    times = (measured or Measured()).step_ms
    return tokens * StepCost(times)(SHORT_PROMPT) / SHORT_PROMPT / 1000 if times else tokens / _READ_LOCALLY


def useful_slots(able: Capabilities, measured: Measured | None = None) -> int:
    """Calls that are worth running side by side: on a local model, as many as one forward takes for little more time.

    It is taken from the measured step times: where a forward of eight rows takes four times as long as one of a single
    row, eight parallel requests are done no sooner than on two slots of full speed.
    """
    slots = max(1, able.concurrent_calls)
    times = (measured or Measured()).step_ms
    rows = max((rows for rows in times if rows <= slots), default=0)
    if 1 not in times or rows <= 1 or times[rows] <= 0:
        return slots
    return min(slots, max(1, round(rows * times[1] / times[rows])))


def _chunk(total: int, other: int, room: int, largest: int, *, slots: int, left: Mapping[str, float]) -> int:
    """Tokens of a passage: as small as the calls side by side allow, as large as the rate limits demand."""
    requests = left.get("requests", math.inf)
    slots = min(slots, max(1, math.floor(min(requests, 1e9))))
    chunk = min(largest, max(math.ceil(total / slots), min(USUAL_LEAST, largest)))  # one wave, if that is not too short
    tokens = min(left.get("tokens", math.inf), left.get("input-tokens", math.inf))
    calls = math.ceil(total / chunk)
    if calls > requests or total + calls * other > tokens:  # these limits bind: send the instructions rarely
        return largest if calls <= requests else min(room, max(largest, math.ceil(total / max(1.0, requests))))
    return chunk
