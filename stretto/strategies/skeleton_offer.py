"""The offer of ``skeleton`` to the router, and its expected cost."""

from __future__ import annotations

import math

from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, Speed, seconds
from stretto.router.obstacles import to_skeleton
from stretto.router.offer import Offer

PRIORITY = 10
POINTS = 6
OUTLINE_TOKENS = 70
LENGTH = 1.2  # answers in points are longer than those of ``direct``


def offer_skeleton(case: Case) -> Offer:
    """Offer an outline with parallel points if the shape model is confident enough that they suit."""
    sure, needed = case.judgement.skeleton, case.threshold
    forecast = skeleton_forecast(case.speed, case.prompt_tokens, case.answer_tokens)
    doubt = f"an outline first would probably not serve ({sure:.0%} sure, {needed:.0%} needed)"
    return Offer(
        confidence=sure,
        cause=f"Outline first, then its points in parallel: they stand on their own ({sure:.0%} sure).",
        forecast=forecast,
        suits=sure >= needed and not case.judgement.unsure,
        priority=PRIORITY,
        although="points in parallel would serve",
        obstacle=lambda: case.obstacle(forecast, special=to_skeleton(case.parse)),
        doubt=doubt if case.judgement.shape == "points" else "",
    )


def skeleton_forecast(speed: Speed, prompt_tokens: int, answer: int) -> Forecast:
    """Expected cost: an outline, then waves of as many points as the backend has slots.

    A wave lasts as long as its slowest point (Skeleton-of-Thought, arXiv 2307.15337). Where the server keeps nothing of
    what it has read, each of these calls reads the prompt anew.
    """
    written = answer * LENGTH
    point = written / POINTS * SLOWEST_PART
    waves = math.ceil(POINTS / speed.slots)
    point_s = seconds(speed, point, calls=min(POINTS, speed.slots))
    total_s = seconds(speed, OUTLINE_TOKENS / speed.alone) + waves * point_s
    total_s += (POINTS + 1) * prompt_tokens / speed.read_per_s
    read = (POINTS + 1) * (prompt_tokens + INSTRUCTION_TOKENS) + POINTS * OUTLINE_TOKENS
    return Forecast(seconds=round(total_s, 2), tokens=round(read + OUTLINE_TOKENS + written), calls=POINTS + 1)
