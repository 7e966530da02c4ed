"""A correction of the router that was learned from questions of the user, kept beside the settings.

It is one number, added to the log-odds that an outline with parallel points suits: enough for somebody who wants points
more often or less often than the library expects, and too little to learn a few questions by heart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stretto.config.kept_values import beside_settings, read_kept, write_kept
from stretto.router.shape import Judgement

AGAIN = "stretto calibrate --router"
_SPREAD = 1.0  # of the correction before anything is known: that of a normal distribution, in log-odds
_WIDEST, _STEPS = 20.0, 50


class Correction(BaseModel):
    """What was learned.

    Attributes:
        offset: added to the log-odds that an outline suits.
        learned: the day.
        questions: how many it was learned from.
        right_before: questions whose strategy was right without it.
        right: the same with corrections that were learned from the other questions.
    """

    model_config = ConfigDict(frozen=True)

    offset: float = Field(ge=-_WIDEST, le=_WIDEST, allow_inf_nan=False)
    learned: date
    questions: int = Field(ge=1)
    right_before: int = Field(ge=0)
    right: int = Field(ge=0)


def correction_file() -> Path:
    """Where the correction is kept."""
    return beside_settings("router.json")


def keep_correction(found: Correction) -> Path:
    """Write the file. Raises `OSError`."""
    write_kept(correction_file(), found)
    return correction_file()


def correction() -> Correction | None:
    """The correction that is kept; ``None`` where there is none. Reads a file at most."""
    return read_kept(correction_file(), Correction, AGAIN)


def corrected(judgement: Judgement) -> Judgement:
    """A judgement with the correction that is kept."""
    found = correction()
    return judgement if found is None else replace(judgement, skeleton=moved(judgement.skeleton, found.offset))


def moved(probability: float, offset: float) -> float:
    """A probability whose log-odds are moved."""
    bounded = min(max(probability, 1e-9), 1 - 1e-9)
    return 1 / (1 + math.exp(-(math.log(bounded / (1 - bounded)) + offset)))


def fitted(probabilities: Sequence[float], wanted: Sequence[bool]) -> float:
    """The offset under which what was wanted is likeliest, held near 0 by its spread; found by bisection."""
    low, high = -_WIDEST, _WIDEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        errors = sum(moved(each, middle) - was for each, was in zip(probabilities, wanted, strict=True))
        if errors + middle / _SPREAD**2 > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
