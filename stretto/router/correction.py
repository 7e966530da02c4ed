"""A correction of the router learned from the user's questions, stored next to the settings.

It is one number, added to the log-odds that an outline with parallel points suits: enough for users who want points
more or less often than the library expects, and too little to memorise a few questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stretto.config.kept_values import in_settings_folder, read_kept, write_kept
from stretto.router.shape import Judgement

AGAIN = "stretto calibrate --router"
_SPREAD = 1.0  # standard deviation of the normal prior of the correction, in log-odds
_WIDEST, _STEPS = 20.0, 50


class Correction(BaseModel):
    """The learned correction.

    Attributes:
        offset: added to the log-odds that an outline suits.
        learned: the day.
        questions: how many it was learned from.
        right_before: questions whose strategy was right without it.
        right: the same with corrections learned from the other questions.
    """

    model_config = ConfigDict(frozen=True)

    offset: float = Field(ge=-_WIDEST, le=_WIDEST, allow_inf_nan=False)
    learned: date
    questions: int = Field(ge=1)
    right_before: int = Field(ge=0)
    right: int = Field(ge=0)


def correction_file() -> Path:
    """Return the path of the stored correction."""
    return in_settings_folder("router.json")


def keep_correction(found: Correction) -> Path:
    """Write the file. Raises `OSError`."""
    write_kept(correction_file(), found)
    return correction_file()


def correction() -> Correction | None:
    """Return the stored correction, or ``None``. Reads at most one file."""
    return read_kept(correction_file(), Correction, AGAIN)


def corrected(judgement: Judgement) -> Judgement:
    """Apply the stored correction to a judgement."""
    found = correction()
    return judgement if found is None else replace(judgement, skeleton=moved(judgement.skeleton, found.offset))


def moved(probability: float, offset: float) -> float:
    """Add an offset to the log-odds of a probability."""
    bounded = min(max(probability, 1e-9), 1 - 1e-9)
    return 1 / (1 + math.exp(-(math.log(bounded / (1 - bounded)) + offset)))


def fitted(probabilities: Sequence[float], wanted: Sequence[bool]) -> float:
    """Return the most likely offset given what was wanted and the prior around 0, found by bisection."""
    low, high = -_WIDEST, _WIDEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        errors = sum(moved(each, middle) - was for each, was in zip(probabilities, wanted, strict=True))
        if errors + middle / _SPREAD**2 > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2
