"""Whether the answer about documents is written in sections side by side once they are read, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stretto.prompts import GENERAL
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, answer_tokens, seconds
from stretto.router.history import track_record_for
from stretto.router.obstacles import seconds_of, to_parallel
from stretto.router.track_record import Kind
from stretto.strategies.document.task import REPORT_WORDS, Task
from stretto.strategies.skeleton.skeleton_offer import LEAST_S, LEAST_SHARE
from stretto.values.route import Forecast

__all__ = ["Ending", "ending_of"]

PLAN_TOKENS = 260  # the last section waits for all of them
SECTIONS = 5
LONGEST = 0.3  # of the report that its longest section has
LENGTH = 1.1  # reports in sections over those in one piece
NEEDS = ("plan",)  # as plans of other answers
_NO_ANSWER = Forecast(seconds=0.0, tokens=0, calls=0, written=0)


@dataclass(frozen=True)
class Ending:
    """How the answer is written once the documents are read.

    Attributes:
        forecast: of it, what it reads of the documents left out.
        in_sections: by a plan.
        said: the end of the route's reason; empty where no report is asked for.
    """

    forecast: Forecast
    in_sections: bool = False
    said: str = ""

    def behind(self, *, seconds: float, read: int, written: int = 0, calls: int = 0) -> Forecast:
        """The cost of all, after a reading that costs so much."""
        end = self.forecast
        return Forecast(
            seconds=round(seconds + end.seconds, 2),
            tokens=round(read + written + end.tokens),
            calls=calls + end.calls,
            written=written + (end.written or 0),
        )


def ending_of(case: Case, task: Task) -> Ending:
    """Decide it: in sections where a report is asked for and that saves a quarter of the time and a second."""
    if case.request.strategy_options.get("stop_after") == "reading":
        return Ending(_NO_ANSWER)
    bare = replace(case, request=case.request.model_copy(update={"documents": ()}))
    whole = case.answer_tokens
    if task.report:
        words = task.words or case.parse.words or round(REPORT_WORDS * case.parse.depth)
        whole = answer_tokens(case.judgement.shape, words=words, max_tokens=case.request.options.max_tokens)
    speed = case.speed
    straight = Forecast(seconds=seconds(speed, whole), tokens=whole, calls=1, written=whole)
    if not task.report:
        return Ending(straight)
    longest = whole * LENGTH * LONGEST
    side_by_side = max(1, min(SECTIONS, speed.concurrent_calls))
    written = round(PLAN_TOKENS + whole * LENGTH)
    planned = Forecast(
        seconds=round(seconds(speed, PLAN_TOKENS / speed.alone) + seconds(speed, longest, calls=side_by_side), 2),
        tokens=written + SECTIONS * (PLAN_TOKENS + 2 * INSTRUCTION_TOKENS),
        calls=1 + SECTIONS,
        written=written,
    )
    if against := next(_against(bare, straight, planned), None):
        return Ending(straight, said=f". It is written in one piece: {against}")
    took = f", about {planned.seconds:.1f} s instead of {straight.seconds:.1f} s" if case.measured_how else ""
    return Ending(planned, True, f". A plan is written from them, then its sections in parallel{took}")


def _against(case: Case, straight: Forecast, planned: Forecast) -> Iterator[str]:
    """Reasons against sections, given the case without its documents."""
    request, saved = case.request, straight.seconds - planned.seconds
    if case.family != GENERAL:
        yield "the model is too small for a plan"
    if case.parse.points.asked:
        yield "a list of so many points is no report in sections"
    if found := case.obstacle() or case.missing_ability(NEEDS) or track_record_for(case, Kind.PLANS).against:
        yield found
    if saved < LEAST_S or saved < LEAST_SHARE * straight.seconds:
        yield f"sections in parallel would take {seconds_of(straight, planned, case.measured_how)}, too little gained"
    if found := to_parallel(request, case.backend, case.load, straight, planned, measured=case.measured_how):
        yield found
    options, calls = request.strategy_options, planned.calls
    if (most := options.get("answer_calls")) and most < calls:
        yield f"answer_calls={most} is too little for sections, which take {calls}"
    if (most := options.get("answer_tokens")) and most < planned.tokens:
        yield f"answer_tokens={most} is too little for sections, which take about {planned.tokens:,}"
