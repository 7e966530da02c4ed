"""The offer of ``skeleton`` to the router, and its expected cost."""

from __future__ import annotations

import math
from functools import partial

from stretto.language.counting import MOST_ASKED
from stretto.prompts import GENERAL, POCKET
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, TYPICAL_TOKENS_PER_WORD, all_s, reading_s, seconds
from stretto.router.history import track_record_for
from stretto.router.obstacles import to_skeleton
from stretto.router.offer import Offer
from stretto.router.parse import USUAL_POINTS, Parse
from stretto.router.track_record import Kind
from stretto.strategies.skeleton import SkeletonOptions
from stretto.strategies.strategy_options import options_of
from stretto.values.request import Request
from stretto.values.route import Forecast, Obstacle

PRIORITY = 10
LEAST_SHARE, LEAST_S = 0.25, 1.0  # of the direct answer's time, and seconds, that sections must save
LATEST = 0.15  # how much later a plan's first text may come, relative to the direct answer's first text
LEAST_LATER_S = 0.1  # seconds that a reader notices
PLAN_PROMPT = 650  # tokens, besides the question
FEWEST_SECTIONS, MOST_SECTIONS = 2, 8
WORDS_OF_A_SECTION = 140  # from which their number is estimated for a given length of the answer
# Of the texts that benchmarks/planned.py replays, medians:
BEFORE_LINES, LINE, CLOSING = 80, 36, 36  # tokens of a plan: opening and headings, the line of a section, the closing
TOGETHER = 120  # words of adjacent sections that one call writes
SHORT = 60  # words; a section of at least this length does not wait for its neighbour
NAME = 9  # tokens of a plan for an item of a list
SHORTEST_ITEM, ITEM = 40, 60  # words: shorter ones are not worth a call; of items if no number is asked for
FEWEST_ITEMS, MOST_ITEMS = 3, 12  # if no number is asked for
LENGTH = 1.02  # length of planned answers relative to direct ones
LONGEST, LAST = 1.1, 0.9  # the longest section, and the one that ends last if none waits, relative to the mean
BEGINNING = 2 / 3  # of the first two sections, which later ones read
TITLE_TOKENS = 8  # of an outline, with its number
LENGTH_BY_POINTS = 1.2


READERS = 'readers preferred answers in one piece; preference="fastest" takes sections where they save time'


def is_by_points(request: Request, family: str) -> bool:
    """Return whether a model of this prompt family writes the answer as points, not sections."""
    form = options_of(request, SkeletonOptions).form if request.strategy == "skeleton" else None
    return form == "points" or (form is None and family == POCKET)


def asks_for_list(parse: Parse) -> bool:
    """Return whether the answer is to be a list: so many tips, or "list the ..."."""
    return bool(parse.points.asked) or parse.form in ("numbered", "bulleted")


def items_of(parse: Parse, words: float) -> int:
    """Return how many items a list of so many words has."""
    return parse.points.asked or min(MOST_ITEMS, max(FEWEST_ITEMS, round(words / ITEM)))


def offer_skeleton(case: Case) -> Offer:
    """Offer parts in parallel if they suit the question, the model can plan them, and they save time."""
    by_points = is_by_points(case.request, case.family)
    forecast = partial(forecast_of, case)
    sure, needed = case.judgement.skeleton, case.threshold
    suits = sure >= needed and not case.judgement.unsure

    def reason() -> str:
        first = f"{'Outline' if by_points else 'A plan'} first, then its {_parts(case, by_points=by_points)}"
        sureness = f"they stand on their own ({sure:.0%} sure{case.shape_evidence})"
        return f"{first} in parallel: {sureness}.{case.gain(forecast())}"

    def doubt() -> str:
        serve = f"{_parts(case, by_points=by_points)} would probably not serve"
        return f"{serve} ({sure:.0%} sure, {needed:.0%} needed{case.shape_evidence})"

    return Offer(
        confidence=sure,
        reason=reason if suits else "",
        forecast=forecast,
        eligible=suits,
        priority=PRIORITY,
        when_blocked=f"{_parts(case, by_points=by_points)} in parallel would serve" if suits else "",
        needs=() if by_points else ("plan",),
        obstacle=lambda: _obstacle(case, forecast(), by_points=by_points),
        why_not=doubt if case.judgement.shape == "points" and not suits else "",
    )


def _parts(case: Case, *, by_points: bool) -> str:
    return "points" if by_points else "items" if asks_for_list(case.parse) else "sections"


def _obstacle(case: Case, forecast: Forecast, *, by_points: bool) -> str | None:
    if by_points:
        return case.obstacle(forecast, special=to_skeleton(case.parse))
    special = _not_planned(case) or track_record_for(case, Kind.PLANS).against
    return case.obstacle(forecast, special=special, saves=(LEAST_SHARE, LEAST_S)) or _later(case)


def _not_planned(case: Case) -> str | None:
    """Return why the model should not plan this answer, as half a sentence."""
    if case.family != GENERAL:
        return Obstacle("a model of this size holds no plan of an answer", "ability")
    if asks_for_list(case.parse):
        if against := to_skeleton(case.parse, MOST_ASKED):
            return against
        words = case.answer_tokens / TYPICAL_TOKENS_PER_WORD
        if (each := round(words / items_of(case.parse, words))) < SHORTEST_ITEM:
            return Obstacle(f"a list is asked for whose items would be short, about {each} words each", "gain")
    elif against := to_skeleton(case.parse):
        return against
    if case.request.preference != "fastest":
        return Obstacle(READERS, "readers")
    return None


def _later(case: Case) -> str | None:
    """Return why the first text would come too late: the prefill of a plan's prompt is slow on a small machine."""
    read_s, plan_s = (reading_s(case.speed, case.measured, case.prompt_tokens + more) for more in (0, PLAN_PROMPT))
    later = plan_s - read_s
    if later <= max(LATEST * (case.speed.first_of(1) + read_s), LEAST_LATER_S):
        return None
    return Obstacle(f"its first text would come about {later:.1f} s later, since the model has to read more", "gain")


def most_sections(words: float) -> int:
    """Return the maximum number of sections of an answer of so many words."""
    return min(MOST_SECTIONS, max(FEWEST_SECTIONS, round(words / WORDS_OF_A_SECTION)))


def sections_forecast(case: Case) -> Forecast:
    """Estimate the cost of the plan and its sections in parallel, each from its line of the plan on.

    Unless the answer is to be the fastest, sections from the third on wait for the whole plan and the beginnings of the
    first two.
    """
    speed, answer = case.speed, case.answer_tokens * LENGTH
    words = answer / TYPICAL_TOKENS_PER_WORD
    if asks_for_list(case.parse):  # all items start after the line with their names
        items = items_of(case.parse, words)
        calls = 1 + math.ceil((items - 1) / max(1, TOGETHER * items // round(words)))
        start = second = BEFORE_LINES // 2 + items * NAME
    else:
        calls = most_sections(words)
        start, second = BEFORE_LINES + calls * LINE, BEFORE_LINES + FEWEST_SECTIONS * LINE
    mean, plan = answer / calls, start + CLOSING

    def planned(tokens: float) -> float:
        return seconds(speed, tokens / speed.alone)

    if case.request.preference == "fastest" or calls <= FEWEST_SECTIONS:
        total_s = planned(start) + all_s(speed, LAST * mean, calls)
    else:
        begun = planned(second) + all_s(speed, BEGINNING * mean, FEWEST_SECTIONS)
        total_s = max(begun, planned(plan)) + all_s(speed, LONGEST * mean, calls - FEWEST_SECTIONS)
    total_s += (1 + calls) * reading_s(speed, case.measured, case.prompt_tokens + PLAN_PROMPT)
    read = (case.prompt_tokens + INSTRUCTION_TOKENS) * (1 + calls) + calls * plan
    return Forecast(
        seconds=round(total_s, 2), tokens=round(read + plan + answer), calls=1 + calls, written=round(plan + answer)
    )


def points_forecast(case: Case) -> Forecast:
    """Estimate the cost of an outline, then waves of as many points as the backend runs at once.

    A wave lasts as long as its slowest point (Skeleton-of-Thought, arXiv 2307.15337). If the server has no prefix
    cache, each of these calls prefills the prompt again.
    """
    speed, points = case.speed, max(USUAL_POINTS, case.parse.points.asked or 0)
    outline, answer = TITLE_TOKENS * points, case.answer_tokens * LENGTH_BY_POINTS
    total_s = seconds(speed, outline / speed.alone) + all_s(speed, answer / points * SLOWEST_PART, points)
    total_s += (points + 1) * case.prompt_tokens / speed.read_per_s
    read = (points + 1) * (case.prompt_tokens + INSTRUCTION_TOKENS) + points * outline
    written = round(outline + answer)
    return Forecast(seconds=round(total_s, 2), tokens=read + written, calls=points + 1, written=written)


def forecast_of(case: Case) -> Forecast:
    """Estimate the cost of the form that the request gets."""
    return points_forecast(case) if is_by_points(case.request, case.family) else sections_forecast(case)
