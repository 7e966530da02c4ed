"""When ``document`` offers itself to the router, and what it is expected to cost."""

from __future__ import annotations

import math

from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, seconds
from stretto.router.offer import Offer
from stretto.strategies.document.sizes import LARGEST_CHUNK, UNKNOWN_WINDOW
from stretto.strategies.document.task import task_of

PRIORITY = 40
RECORD_TOKENS = 120
_FITS = 0.7  # of the context window, which estimated counts may fill
_SAYS = {
    "answer": "passages are read in parallel, and the answer is put together from what they hold",
    "chain": "one passage is needed to find the next, so they are read in order",
    "compare": "passages are read in parallel for both sides of the comparison",
    "summarise": "passages are summarised in parallel",
    "extract": "every passage is searched in parallel, and what is found is put together",
    "rewrite": "it is done piece by piece in parallel",
}


def offer_document(case: Case) -> Offer | None:
    """Offer to read in parallel what does not fit into the context window."""
    documents = case.request.documents
    if not documents:
        return None
    window = case.backend.capabilities.context_window or UNKNOWN_WINDOW
    task = task_of(case.request.question, len(documents))
    total = case.prompt_tokens
    fits = total + case.answer_tokens <= window * _FITS
    largest = min(LARGEST_CHUNK[case.request.preference], window // 2)
    calls = max(1, math.ceil(total / largest))
    chained = task.hops and task.kind == "answer"
    waves = calls if chained else math.ceil(calls / case.speed.slots)
    total_s = waves * seconds(case.speed, RECORD_TOKENS * SLOWEST_PART) + seconds(case.speed, case.answer_tokens)
    read = total + calls * INSTRUCTION_TOKENS
    forecast = Forecast(
        seconds=round(total_s, 2), tokens=round(read + calls * RECORD_TOKENS + case.answer_tokens), calls=calls + 1
    )
    says = _SAYS["chain" if chained else task.kind]
    return Offer(
        confidence=1.0,
        cause=f"The documents do not fit into the context window of {window:,} tokens: {says}.",
        forecast=forecast,
        suits=not fits,
        priority=PRIORITY,
        although="the documents are long",
    )
