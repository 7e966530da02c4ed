"""How much text each call gets: the context window, the number of calls side by side, and how dense the text is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from stretto.errors import ContextOverflowError
from stretto.request import Request
from stretto.strategies.fan_out import FanOut

__all__ = ["Sizes", "density", "estimate", "sizes_of"]

Counter = Callable[[str], int]

UNKNOWN_WINDOW = 32_000  # tokens; of a model that nobody knows
MAP_TOKENS = 700  # a record may have
THINKING = 2_000  # more for a reasoning model
ANSWER_TOKENS = 1_200  # kept free for the answer where the request names no limit
LEAST_CHUNK = 64
USUAL_LEAST = 400
# The longer a passage, the more of its middle is lost; what a reader may miss is the caller's to say.
LARGEST_CHUNK = {"fastest": 16_000, "balanced": 8_000, "careful": 3_000}
EDGE = 160  # characters of the neighbouring passages that are shown
OUTLINE = 1_200  # characters of the document's beginning and headings that are shown
MARGIN = 0.05
_WORDS = re.compile(r"\w{3,}")
_COMMON = frozenset(
    """
    the and for are was were what which who whom whose when where why how many much does did has have had this
    that these those with from into about than then them they their there your you all any each every not but
    can could would should is der die das und von mit für wie was wer wann warum les des une que qui dans pour
    los las una por con para
    """.split()  # noqa: SIM905 - a list of one word a line is no easier to read
)


@dataclass(frozen=True)
class Sizes:
    """Tokens for each kind of call.

    Attributes:
        chunk: of a passage at most.
        record: that a record may have.
        findings: that all findings together may have in the last prompt.
        group: of records that are put together in one call.
        whole: that documents may have to be sent as they are.
    """

    chunk: int
    record: int
    findings: int
    group: int
    whole: int


def sizes_of(request: Request, runner: FanOut, overhead: int, total: int) -> Sizes:
    """Fit the sizes to a backend.

    Args:
        request: preference and ``max_tokens`` are read.
        runner: for the backend's window and slots.
        overhead: tokens of the longest prompt without its passage.
        total: tokens of all documents.

    Raises `ContextOverflowError` if not even a short passage fits beside the question.
    """
    able = runner.capabilities
    window = able.context_window or UNKNOWN_WINDOW
    thinking = THINKING if able.reasoning else 0
    record = min(MAP_TOKENS, max(48, window // 6)) + thinking
    room = int((window - record - overhead) * (1 - MARGIN))
    if room < LEAST_CHUNK:
        raise ContextOverflowError(
            f"The question leaves {max(0, room)} tokens of the {window} of {runner.model} for a passage, and "
            f"{LEAST_CHUNK} are the least. Ask a shorter question, or use a model with a larger window.",
            backend=runner.model,
        )
    slots = max(1, able.parallel_slots)
    spread = math.ceil(total / slots)  # one wave, if the passages are not too short then
    largest = min(room, LARGEST_CHUNK[request.preference])
    chunk = min(largest, max(spread, min(USUAL_LEAST, largest)))
    answer = min(request.options.max_tokens or ANSWER_TOKENS, window // 3) + thinking
    findings = max(LEAST_CHUNK, int((window - answer - overhead) * (1 - MARGIN)))
    return Sizes(
        chunk=chunk,
        record=record,
        findings=min(findings, 12_000),
        group=max(LEAST_CHUNK, min(room, 6_000)),
        whole=findings,
    )


def density(question: str) -> Callable[[str], float]:
    """The share of a chunk that a paragraph may fill: half, where it has much of what the question asks for."""
    wanted = {word for word in _WORDS.findall(question.lower()) if word not in _COMMON}

    def share(paragraph: str) -> float:
        low = paragraph.lower()
        return 0.5 if sum(word in low for word in wanted) >= 2 else 1.0

    return share


def estimate(text: str) -> int:
    """Tokens of a text, rather too many than too few: three characters each, one each beyond Latin scripts."""
    if text.isascii():
        return math.ceil(len(text) / 3)
    wide = sum(character > "\u02af" for character in text)
    return math.ceil((len(text) - wide) / 2.5 + wide * 1.2)
