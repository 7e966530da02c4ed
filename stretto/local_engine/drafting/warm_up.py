"""Having compiled what drafters run, before a request needs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.lexical.drafter import Lexical
from stretto.local_engine.drafting.protocol import Context, Drafter, Outcome
from stretto.local_engine.drafting.recycling.drafter import TokenRecycling
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.kernels.jit import first_call

__all__ = ["rehearse", "rehearse_units"]

_log = logging.getLogger(__name__)


def rehearse() -> None:
    """Let the drafters that are compiled draft once; where the compiler fails, they will say so themselves."""
    _once("drafts", _usual)


def rehearse_units() -> None:
    """Do the same for lexical units, which few requests use."""
    _once("units", lambda: [Lexical(1, StepCost({1: 1.0, 64: 1.0}))])


def _usual() -> list[Drafter]:
    memory = AnswerMemory()
    memory.remember([1, 2])
    return [Auto(StepCost(), memory), Suffix(memory), TokenRecycling()]


def _once(what: str, drafters: Callable[[], Sequence[Drafter]]) -> None:
    with first_call(what) as is_first:
        if not is_first:
            return
        try:
            _draft(drafters())
        except Exception as error:  # noqa: BLE001 - an answer needs no draft
            _log.warning("drafters that are compiled will not run: %s", error)


def _draft(drafters: Sequence[Drafter]) -> None:
    for drafter in drafters:
        context = Context([1, 2, 3, 1, 2], 3, 8)
        for _ in range(8):  # a drafter that rests does so no longer
            rows = len(drafter.propose(context, 4))
            shape = (1 + rows, drafter.wants_top)
            context.tokens.append(3)
            tops = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
            drafter.learn(context, Outcome([-1] * rows, *tops, [3], []))
