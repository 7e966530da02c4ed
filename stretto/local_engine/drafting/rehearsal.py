"""Having compiled what drafters run, before a request needs it."""

from __future__ import annotations

import logging

import numpy as np

from stretto.local_engine.compiled.jit import first_call
from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.calibration import Calibration
from stretto.local_engine.drafting.lexical import Lexical
from stretto.local_engine.drafting.protocol import Context, Drafter, Outcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.drafting.token_recycling import TokenRecycling

__all__ = ["rehearse", "rehearse_units"]

_log = logging.getLogger(__name__)


def rehearse() -> None:
    """Let all drafters that are compiled draft once; where the compiler fails, they will say so themselves."""
    with first_call("drafts") as is_first:
        if not is_first:
            return
        try:
            _rehearse()
        except Exception as error:  # noqa: BLE001 - an answer needs no draft
            _log.warning("drafters that are compiled will not run: %s", error)


def rehearse_units() -> None:
    """The same for lexical units, which few requests use."""
    with first_call("units") as is_first:
        if is_first:
            drafter, context = Lexical(1, StepCost({1: 1.0, 2: 1.0})), Context([1], 1, 8)
            rows, tops = range(1, 1 + len(drafter.propose(context, 4))), np.zeros((2, drafter.wants_top))
            drafter.learn(context, Outcome(rows, tops.astype(np.int64), tops.astype(np.float32), [3], []))


def _rehearse() -> None:
    memory = AnswerMemory()
    memory.remember([1, 2])
    drafters: list[Drafter] = [Auto(StepCost(), memory), Suffix(memory), TokenRecycling()]
    for drafter in drafters:
        context = Context([1, 2, 3, 1, 2], 3, 8)
        for _ in range(8):  # a drafter that rests does so no longer
            rows = len(drafter.propose(context, 4))
            shape = (1 + rows, drafter.wants_top)
            context.tokens.append(3)
            tops = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
            drafter.learn(context, Outcome([-1] * rows, *tops, [3], []))
    calibration = Calibration()
    calibration.record(0, 0, calibration.estimate(0, 0, 0.5), hit=True)
