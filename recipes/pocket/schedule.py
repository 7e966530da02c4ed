"""What the pocket model is taught when, how much it counts, and how fast it learns."""

from __future__ import annotations

import itertools

__all__ = ["PHASES", "RATES", "WEIGHTS", "rate"]

PHASES: tuple[tuple[float, dict[str, float]], ...] = (
    (
        0.096,
        {
            "copy": 0.25,
            "transform": 0.25,
            "items": 0.1,
            "item": 0.05,
            "recognise": 0.2,
            "unknown": 0.05,
            "code": 0.1,
        },
    ),
    (
        0.191,
        {
            "recognise": 0.14,
            "opening": 0.02,
            "straight": 0.15,
            "outline": 0.03,
            "point": 0.16,
            "fact": 0.05,
            "item": 0.05,
            "items": 0.07,
            "transform": 0.14,
            "copy": 0.03,
            "unknown": 0.04,
            "code": 0.12,
        },
    ),
    (
        0.764,
        {
            "recognise": 0.24,
            "opening": 0.05,
            "straight": 0.11,
            "outline": 0.03,
            "point": 0.13,
            "fact": 0.05,
            "item": 0.05,
            "items": 0.06,
            "transform": 0.11,
            "copy": 0.02,
            "unknown": 0.05,
            "code": 0.1,
        },
    ),
    (
        0.955,
        {
            "recognise": 0.2,
            "opening": 0.04,
            "straight": 0.12,
            "outline": 0.04,
            "point": 0.2,
            "fact": 0.06,
            "item": 0.05,
            "items": 0.06,
            "transform": 0.09,
            "copy": 0.01,
            "unknown": 0.05,
            "code": 0.08,
        },
    ),
    (
        1.0,
        {
            "capitals": 0.35,
            "recognise": 0.12,
            "opening": 0.03,
            "straight": 0.1,
            "outline": 0.04,
            "point": 0.14,
            "fact": 0.05,
            "item": 0.02,
            "items": 0.05,
            "transform": 0.06,
            "unknown": 0.03,
            "code": 0.01,
        },
    ),
)
"""Until which part of the run, which share of the training tokens each task gets: copying first, capitals last."""

RATES = ((0.0, 1.0), (0.478, 1.0), (0.955, 0.01), (0.96, 0.25), (1.0, 0.01))
"""The learning rate at parts of the run, straight lines between: a short second cycle for the last lesson."""

WEIGHTS = {
    "recognise": 8.0,
    "capitals": 8.0,
    "opening": 2.0,
    "fact": 2.0,
    "unknown": 2.0,
    "item": 6.0,
    "transform": 2.0,
    "copy": 3.0,
}
"""How much a learned token of a task counts, if not one.  Recognising learns few tokens, which matter most."""


def rate(progress: float) -> float:
    """What the learning rates are multiplied by when so much of the run is done, from 0 to 1."""
    (before, high), (after, low) = next(pair for pair in itertools.pairwise(RATES) if progress <= pair[1][0])
    return high + (low - high) * (progress - before) / (after - before)
