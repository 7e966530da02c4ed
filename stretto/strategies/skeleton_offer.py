"""The offer of ``skeleton`` to the router, and its expected cost."""

from __future__ import annotations

import math

from stretto.abilities import IN_LANGUAGE
from stretto.backends.load import Load
from stretto.language.telling import language_of
from stretto.prompts import GENERAL, SMALL
from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, Speed, seconds
from stretto.router.lengths import lengths_of
from stretto.router.obstacles import to_skeleton
from stretto.router.offer import Offer
from stretto.router.parse import USUAL_POINTS
from stretto.router.standing import Kind, standing_of

PRIORITY = 10
POINTS = USUAL_POINTS
TITLE_TOKENS = 8  # of an outline, with its number
LENGTH = 1.2  # answers in points are longer than those of ``direct``
MOST_TOGETHER = 4  # points in one call
SURE = "en"  # the language in which any model is taken to hold points until it shows the contrary
SMALL_POINT = 60  # tokens that a point of a weak model may have: two sentences, and no more, since it rambles
SMALL_BEGINNING = 40  # tokens of its direct answer, which is begun first and might be short
SMALL_POINTS, SMALL_TEXT = 4, 50  # points of a weak model's answer, and tokens of one, as SmolLM2 writes them


def offer_skeleton(case: Case) -> Offer:
    """Offer an outline with parallel points if the shape model is confident enough that they suit."""
    sure, needed = case.judgement.skeleton, case.threshold
    together, forecast = _together(case), forecast_of(case)
    suits = sure >= needed and not case.judgement.unsure
    doubted = case.judgement.shape == "points" and not suits
    doubt = (
        f"an outline first would probably not serve ({sure:.0%} sure, {needed:.0%} needed{case.shape_evidence})"
        if doubted
        else ""
    )
    stands = "Outline first, then its points in parallel: they stand on their own"
    return Offer(
        confidence=sure,
        reason=f"{stands} ({sure:.0%} sure{case.shape_evidence}).{_grouped(together)}{case.gain(forecast)}"
        if suits
        else "",
        forecast=forecast,
        eligible=suits,
        priority=PRIORITY,
        when_blocked="points in parallel would serve",
        needs=("outline", "point"),
        obstacle=lambda: case.obstacle(forecast, special=to_skeleton(case.parse) or _seen_against(case)),
        why_not=doubt,
    )


def forecast_of(case: Case) -> Forecast:
    """Expected cost of an answer in points to this request."""
    return skeleton_forecast(
        case.speed,
        case.prompt_tokens,
        case.answer_tokens,
        small=case.backend.capabilities.prompt_family == SMALL,
        points=_points(case),
        together=_together(case),
        outline=lengths_of(case.backend).typical("outline"),
        point=lengths_of(case.backend).typical("point"),
    )


def _points(case: Case) -> int:
    return max(POINTS, case.parse.points.asked or 0)


def _together(case: Case) -> int:
    """How many points share a call."""
    if case.backend.capabilities.prompt_family != GENERAL:
        return 1
    points = _points(case)
    return points_together(case.load, case.answer_tokens * LENGTH / points, points)


def _seen_against(case: Case) -> str | None:
    """What a check and the last skeletons of the model in the question's language say against another one.

    A weak model holds points in the language that it read most, and hardly any in others, where trying costs time. So
    it has to show that it holds them: in a check, or in answers that were asked for as points.
    """
    language = language_of(case.request.question)
    standing = standing_of(case.backend, Kind.POINTS, language)
    if case.backend.capabilities.prompt_family == SMALL and language != SURE and not standing.shown:
        needed = IN_LANGUAGE.format(language)
        if case.abilities is None or needed not in case.abilities.held:
            return "a model of this size has to show in `stretto check` that it holds points in this language"
        return case.missing_ability((needed,)) or standing.against
    return standing.against


def points_together(load: Load, tokens: float, count: int) -> int:
    """How many points of so many ``tokens`` one call is worth, of ``count`` in all.

    A call should write for as long as its first token takes, by what the last calls took: points of twenty words are
    written in less, so two or more of them share a call. At least two calls remain. Without measurements, each point
    has a call of its own.
    """
    calls = load.calls + count
    first_s, rate = load.first_s(calls), load.rate(calls)
    if first_s is None or rate is None:
        return 1
    worth = math.ceil(first_s * rate / max(1.0, tokens))
    return max(1, min(worth, MOST_TOGETHER, math.ceil(count / 2)))


def _grouped(together: int) -> str:
    if together == 1:
        return ""
    return f" Its points are so short that a first token takes longer: {together} are written in a call."


def skeleton_forecast(
    speed: Speed,
    prompt_tokens: int,
    answer: int,
    *,
    small: bool = False,
    points: int = POINTS,
    together: int = 1,
    outline: int | None = None,
    point: int | None = None,
) -> Forecast:
    """Expected cost: an outline, then waves of as many points as the backend takes; ``small``: short ones.

    ``points``: of a model that is not weak; ``together``: of them in one call; ``outline``, ``point``:
    tokens of one, where seen; that of a point counts for weak models, which do not write as long as they are told.

    A wave lasts as long as its slowest point (Skeleton-of-Thought, arXiv 2307.15337). Where the server keeps nothing of
    what it has read, each of these calls reads the prompt anew.
    """
    points = SMALL_POINTS if small else points
    outline = outline or TITLE_TOKENS * points
    written = min(answer * LENGTH, (point or SMALL_TEXT) * points) if small else answer * LENGTH
    slowest = written / points * (SLOWEST_PART + together - 1)  # of points in one call, not all are slow
    if small:
        slowest = min(slowest, SMALL_POINT)
    calls = math.ceil(points / together)
    side_by_side = min(calls, speed.concurrent_calls)
    begun = SMALL_BEGINNING if small else 0
    total_s = seconds(speed, (begun + outline) / speed.alone)
    total_s += math.ceil(calls / speed.concurrent_calls) * seconds(speed, slowest, calls=side_by_side)
    total_s += (calls + 1) * prompt_tokens / speed.read_per_s
    read = (calls + 1) * (prompt_tokens + INSTRUCTION_TOKENS) + calls * outline
    written += outline
    return Forecast(seconds=round(total_s, 2), tokens=round(read + written), calls=calls + 1, written=round(written))
