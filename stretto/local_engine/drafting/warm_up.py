"""Runs the drafters that are compiled once, so that their code is compiled or loaded before a request needs it."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.texts import Texts
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.kernels.compiling.compiled_parts import Part

__all__ = ["DRAFTING", "run_once", "warm_up"]

DRAFTING = Part("drafting", f"{__name__}:warm_up")
"""What `auto` and `suffix` run."""


def warm_up() -> None:
    """Draft with the suffix automaton."""
    run_once(Suffix([Texts.of([[1, 2]])], FileTexts([[1, 2]])))


def run_once(drafter: Drafter) -> None:
    """Draft and learn a few times."""
    context = DraftContext([1, 2, 3, 1, 2], 3, 8)
    for _ in range(8):  # some drafters begin with a rest
        rows = len(drafter.propose(context, 4))
        shape = (1 + rows, drafter.wants_top)
        context.tokens.append(3)
        tops = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        drafter.learn(context, DraftOutcome([-1] * rows, *tops, [3], []))
