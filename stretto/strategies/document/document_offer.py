"""The offer of ``document`` to the router, and the expected cost of reading and of the answer that follows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stretto.prompts import GENERAL, SMALL
from stretto.router.case import PHRASES, Case
from stretto.router.demands import wants_format
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, all_s, answer_tokens, seconds
from stretto.router.given import Doubt
from stretto.router.history import track_record_for
from stretto.router.obstacles import seconds_of, to_parallel
from stretto.router.offer import Offer
from stretto.router.track_record import Kind
from stretto.strategies.document.passages import MOST_IN_ORDER
from stretto.strategies.document.sizes import (
    LARGEST_CHUNK,
    SMALL_PASSAGE,
    UNKNOWN_WINDOW,
    USUAL_LEAST,
    read_well,
    reading_s,
)
from stretto.strategies.document.task import REPORT_WORDS, Task, task_of
from stretto.strategies.skeleton.skeleton_offer import LEAST_S, LEAST_SHARE
from stretto.values.route import Forecast, Obstacle

PRIORITY = 40  # above callers' own strategies: the documents cannot be sent as they are
WHOLE = 25  # the same for documents that fit: above the outline and the items, below callers' own strategies
RECORD_TOKENS = 120
_LONG_READING_S = 5.0  # from here on the reason mentions it
_ONE_IN = 8  # one passage in eight is read where a search selects them
_COPIED = 50  # tokens of a sentence
_FITS = 0.7  # share of the context window, or of what the model reads well, that estimated counts can fill
_ROUNDS = 2  # of reading, where one passage is needed to find the next
_REWORKED = 0.5  # confidence that the answer is code or mostly text from the prompt, which citations would spoil
_SAYS = {
    "answer": "passages are read in parallel, and the answer is put together from what they hold",
    "order": "one passage is needed to find the next, so they are read in order",
    "rounds": "one passage is needed to find the next, so they are read in parallel rounds",
    "compare": "passages are read in parallel for both sides of the comparison",
    "summarise": "passages are summarised in parallel",
    "extract": "every passage is searched in parallel, and what is found is put together",
    "quote": "passages with a sentence that has the question's words are read side by side, and the answer quotes them",
}


def offer_document(case: Case) -> Offer | None:
    """Offer to read in parallel what does not fit into the context window, and to cite what does."""
    documents = case.request.documents
    if not documents:
        return None
    window = case.backend.capabilities.context_window or UNKNOWN_WINDOW
    task = task_of(case.request.question, len(documents))
    able = replace(case.backend.capabilities, prompt_family=case.family)
    fits = case.prompt_tokens + case.answer_tokens <= window * _FITS
    if fits and case.prompt_tokens <= (read_well(able) or window) * _FITS:
        return _offer_whole(case, task, window)
    ending = _ending_of(case, task)
    way, forecast = _forecast(case, task, window, ending)
    most = f"the context window of {window:,} tokens"
    if (short := read_well(able)) is not None and short < window:
        most = f"the {short:,} tokens that the model reads well"
    text = f"The documents do not fit into {most}: {_SAYS[way]}."
    if short is None and case.prompt_tokens <= window and task.kind != "extract":
        fits_whole = "they are sent whole if they fit together with the answer"
        text = f"The documents nearly fill {most}: {fits_whole}, else {_SAYS[way]}."
    return Offer(
        confidence=1.0,
        reason=f"{text[:-1]}{ending.reason}.",
        forecast=forecast,
        priority=PRIORITY,
        in_sections=ending.in_sections,
        when_blocked="the documents are long",
        obstacle=lambda: _obstacle(case, task, fits=fits),
    )


def _offer_whole(case: Case, task: Task, window: int) -> Offer:
    """Offer to send the documents whole and cite them; to find all things of a kind, every passage is searched."""
    read_s, ending = _reading_s(case, case.prompt_tokens), _ending_of(case, task)
    text = f"they are sent whole, and the answer cites them{ending.reason}"
    forecast = ending.after_reading(seconds=read_s, read=case.prompt_tokens)
    if read_s >= _LONG_READING_S:
        text += f". The model reads their {case.prompt_tokens:,} tokens first, which takes about {read_s:,.0f} s"
    if task.kind == "extract" or task.is_quoted(case.family):
        way, forecast = _forecast(case, task, window, ending)
        text = _SAYS[way]
    return Offer(
        confidence=1.0,
        reason=f"The documents fit into the context window: {text}.",
        forecast=forecast,
        priority=WHOLE,
        in_sections=ending.in_sections,
        when_blocked="an answer about the documents could cite them",
        # For documents that do not fit there is no other way, and a weak model's copy is matched to its sentence.
        needs=() if case.family == SMALL else ("record",),
        obstacle=lambda: (
            next(_against_citations(case, task, forecast), None) or track_record_for(case, Kind.RECORDS).against
        ),
    )


def _against_citations(case: Case, task: Task, forecast: Forecast) -> Iterator[str]:
    """Yield the reasons against citing documents that fit."""
    request, able, judgement = case.request, case.backend.capabilities, case.judgement
    if request.options.response_format is not None:
        yield Obstacle("response_format leaves no place for citations", "demand")
    if case.parse.changes is not None:
        given = case.parse.given
        why = (
            given.why
            if isinstance(given, Doubt)
            else "they are to be rewritten, and citations would appear in the text"
        )
        yield Obstacle(why, "demand")
    if not able.reads_history and able.passage_tokens is None:
        yield Obstacle(f"{case.backend.name} has not learned to cite", "ability")
    if task.kind == "extract":
        if (most := request.budget.max_calls) and most < forecast.calls:
            yield Obstacle(f"the budget of {most} calls is too small, {forecast.calls} are needed", "budget")
        return
    if found := case.parse.format or wants_format(request.system):
        yield Obstacle(f'a format is asked for ("{found}"), which citations would spoil', "demand")
    reworked = judgement.shapes["code"] + judgement.shapes["transform"] >= _REWORKED
    if reworked and task.kind == "answer" and not judgement.unsure:
        shape = max(("code", "transform"), key=judgement.shapes.__getitem__)
        yield Obstacle(f"the answer most likely {PHRASES[shape]}, and citations would appear in it", "shape")


def _obstacle(case: Case, task: Task, *, fits: bool) -> str | None:
    """Return a reason against reading long documents in passages; ``None`` if there is none."""
    if fits and case.parse.changes is not None:
        return Obstacle("they are to be rewritten, and quotations from them are no answer", "demand")
    able = case.backend.capabilities
    # A model that was trained on passages makes up less in them.
    if able.beyond_window and able.passage_tokens is None and task.kind == "answer" and not task.hops:
        return Obstacle("the model reads beyond its window by itself", "window")
    return None


def _forecast(case: Case, task: Task, window: int, ending: _Ending) -> tuple[str, Forecast]:
    """Return how the documents would be read, and the expected cost."""
    if task.is_quoted(case.family):
        return "quote", _forecast_of_quoting(case)
    largest = min(LARGEST_CHUNK[case.request.preference], window // 2)
    chunk = min(largest, max(USUAL_LEAST, math.ceil(case.prompt_tokens / case.speed.concurrent_calls)))
    calls = max(1, math.ceil(case.prompt_tokens / chunk))
    waves, way = math.ceil(calls / case.speed.concurrent_calls), str(task.kind)
    if task.hops and calls <= MOST_IN_ORDER:
        waves, way = calls, "order"
    elif task.hops:
        waves, calls, way = _ROUNDS * waves, _ROUNDS * calls, "rounds"
    record_s = seconds(case.speed, RECORD_TOKENS * SLOWEST_PART, calls=min(calls, case.speed.concurrent_calls))
    total_s = waves * record_s + _reading_s(case, case.prompt_tokens)
    read, written = case.prompt_tokens + calls * INSTRUCTION_TOKENS, calls * RECORD_TOKENS
    return way, ending.after_reading(seconds=total_s, read=read, written=written, calls=calls)


def _forecast_of_quoting(case: Case) -> Forecast:
    """Return the cost of quoting, assuming that a search finds the question's words in one passage in eight."""
    calls = max(1, math.ceil(case.prompt_tokens / SMALL_PASSAGE / _ONE_IN))
    read, written = calls * (SMALL_PASSAGE + INSTRUCTION_TOKENS), calls * _COPIED
    total_s = all_s(case.speed, _COPIED * SLOWEST_PART, calls) + _reading_s(case, read)
    return Forecast(seconds=round(total_s, 2), tokens=read + written, calls=calls, written=written)


def _reading_s(case: Case, tokens: int) -> float:
    return reading_s(case.backend.name, case.measured, tokens)


PLAN_TOKENS = 260  # the last section waits for the whole plan
SECTIONS = 5
LONGEST = 0.3  # of the report, for its longest section
LENGTH = 1.1  # length of reports in sections, relative to those in one piece
NEEDS = ("plan",)  # as for the plans of other answers
_NO_ANSWER = Forecast(seconds=0.0, tokens=0, calls=0, written=0)


@dataclass(frozen=True)
class _Ending:
    """How the answer is written once the documents are read.

    Attributes:
        forecast: its cost, without the document text that it reads.
        in_sections: whether it is written in sections, by a plan.
        reason: the end of the route's reason; empty if no report is asked for.
    """

    forecast: Forecast
    in_sections: bool = False
    reason: str = ""

    def after_reading(self, *, seconds: float, read: int, written: int = 0, calls: int = 0) -> Forecast:
        """Return the total cost, given the cost of reading."""
        end = self.forecast
        return Forecast(
            seconds=round(seconds + end.seconds, 2),
            tokens=round(read + written + end.tokens),
            calls=calls + end.calls,
            written=written + (end.written or 0),
        )


def _ending_of(case: Case, task: Task) -> _Ending:
    """Choose sections if a report is asked for and they save at least a quarter of the time and a second."""
    if case.request.strategy_options.get("stop_after") == "reading":
        return _Ending(_NO_ANSWER)
    bare = replace(case, request=case.request.model_copy(update={"documents": ()}))
    whole = case.answer_tokens
    if task.report:
        words = task.words or case.parse.words or round(REPORT_WORDS * case.parse.depth)
        whole = answer_tokens(case.judgement.shape, words=words, max_tokens=case.request.options.max_tokens)
    speed = case.speed
    straight = Forecast(seconds=seconds(speed, whole), tokens=whole, calls=1, written=whole)
    if not task.report:
        return _Ending(straight)
    longest = whole * LENGTH * LONGEST
    side_by_side = max(1, min(SECTIONS, speed.concurrent_calls))
    written = round(PLAN_TOKENS + whole * LENGTH)
    planned = Forecast(
        seconds=round(seconds(speed, PLAN_TOKENS / speed.alone) + seconds(speed, longest, calls=side_by_side), 2),
        tokens=written + SECTIONS * (PLAN_TOKENS + 2 * INSTRUCTION_TOKENS),
        calls=1 + SECTIONS,
        written=written,
    )
    if against := next(_against_sections(bare, straight, planned), None):
        return _Ending(straight, reason=f". It is written in one piece: {against}")
    took = f", about {planned.seconds:.1f} s instead of {straight.seconds:.1f} s" if case.measured_how else ""
    return _Ending(planned, True, f". A plan is written from them, then its sections in parallel{took}")


def _against_sections(case: Case, straight: Forecast, planned: Forecast) -> Iterator[str]:
    """Yield the reasons against sections, given the case without its documents."""
    request, saved = case.request, straight.seconds - planned.seconds
    if case.family != GENERAL:
        yield "the model is too small for a plan"
    if case.parse.points.asked:
        yield "a list of so many points is no report in sections"
    if found := case.obstacle() or case.missing_ability(NEEDS) or track_record_for(case, Kind.PLANS).against:
        yield found
    if saved < LEAST_S or saved < LEAST_SHARE * straight.seconds:
        yield f"sections in parallel would take {seconds_of(straight, planned, case.measured_how)}, too little gained"
    if found := to_parallel(case, planned, straight=straight):
        yield found
    options, calls = request.strategy_options, planned.calls
    if (most := options.get("answer_calls")) and most < calls:
        yield f"answer_calls={most} is too little for sections, which take {calls}"
    if (most := options.get("answer_tokens")) and most < planned.tokens:
        yield f"answer_tokens={most} is too little for sections, which take about {planned.tokens:,}"
