"""When ``document`` offers itself to the router, and what it is expected to cost."""

from __future__ import annotations

import math

from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, seconds
from stretto.router.offer import Offer
from stretto.strategies.document.chain import MOST_IN_ORDER
from stretto.strategies.document.sizes import LARGEST_CHUNK, UNKNOWN_WINDOW
from stretto.strategies.document.task import Task, task_of

__all__ = ["offer_document"]

PRIORITY = 40
BEFORE_DIRECT = 5  # what fits is cited, unless an outline or items serve
RECORD_TOKENS = 120
_FITS = 0.7  # of the context window, which estimated counts may fill
_ROUNDS = 2  # of reading, where one passage is needed to find the next
_ASKS = frozenset({"short", "points", "steps", "prose"})  # shapes of answers to questions about a text
_SAYS = {
    "answer": "passages are read in parallel, and the answer is put together from what they hold",
    "order": "one passage is needed to find the next, so they are read in order",
    "rounds": "one passage is needed to find the next, so they are read in parallel rounds",
    "compare": "passages are read in parallel for both sides of the comparison",
    "summarise": "passages are summarised in parallel",
    "extract": "every passage is searched in parallel, and what is found is put together",
    "rewrite": "it is done piece by piece in parallel",
}


def offer_document(case: Case) -> Offer | None:
    """Offer to read in parallel what does not fit into the context window, and to cite what does."""
    documents = case.request.documents
    if not documents:
        return None
    window = case.backend.capabilities.context_window or UNKNOWN_WINDOW
    task = task_of(case.request.question, len(documents))
    able = case.backend.capabilities
    fits = case.prompt_tokens + case.answer_tokens <= window * _FITS
    fits = fits and case.prompt_tokens <= (able.passage_tokens or window)
    in_form = case.request.options.response_format is not None
    if fits:
        asked = case.judgement.shape in _ASKS and task.kind in ("answer", "compare", "summarise") and not in_form
        return Offer(
            confidence=1.0,
            cause="The documents fit into the context window: they are sent whole, and the answer cites them.",
            forecast=case.straight,
            suits=asked and case.backend.capabilities.reads_history,
            priority=BEFORE_DIRECT,
        )
    way, forecast = _forecast(case, task, window)
    most = f"the context window of {window:,} tokens"
    if (short := able.passage_tokens) is not None and short < window:
        most = f"the {short:,} tokens that the model reads well"
    return Offer(
        confidence=1.0,
        cause=f"The documents do not fit into {most}: {_SAYS[way]}.",
        forecast=forecast,
        priority=PRIORITY,
        although="the documents are long",
        obstacle=lambda: _obstacle(case, task),
    )


def _obstacle(case: Case, task: Task) -> str | None:
    """What speaks for sending long documents as they are."""
    if case.request.options.response_format is not None and task.kind == "rewrite":
        return "response_format holds an answer as a whole"
    able = case.backend.capabilities
    by_itself = (
        able.beyond_window and able.passage_tokens is None
    )  # one that was trained for passages makes up less in them
    if by_itself and task.kind == "answer" and not task.hops:
        return "the model reads beyond its window by itself"
    return None


def _forecast(case: Case, task: Task, window: int) -> tuple[str, Forecast]:
    """How the documents would be read, and what that costs."""
    calls = max(1, math.ceil(case.prompt_tokens / min(LARGEST_CHUNK[case.request.preference], window // 2)))
    waves, way = math.ceil(calls / case.speed.slots), str(task.kind)
    if task.hops and calls <= MOST_IN_ORDER:
        waves, way = calls, "order"
    elif task.hops:
        waves, calls, way = _ROUNDS * waves, _ROUNDS * calls, "rounds"
    total_s = waves * seconds(case.speed, RECORD_TOKENS * SLOWEST_PART) + seconds(case.speed, case.answer_tokens)
    read = case.prompt_tokens + calls * INSTRUCTION_TOKENS
    tokens = round(read + calls * RECORD_TOKENS + case.answer_tokens)
    return way, Forecast(seconds=round(total_s, 2), tokens=tokens, calls=calls + 1)
