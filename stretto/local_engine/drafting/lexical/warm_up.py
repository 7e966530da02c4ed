"""Runs the drafter once, so that its code is compiled or loaded before a request needs it."""

from __future__ import annotations

from stretto.local_engine.drafting.lexical.drafter import Lexical
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.warm_up import run_once
from stretto.local_engine.kernels.parts import Part

__all__ = ["UNITS", "warm_up"]

UNITS = Part("units", f"{__name__}:warm_up")


def warm_up() -> None:
    """Draft with lexical units."""
    run_once(Lexical(1, StepCost({1: 1.0, 64: 1.0})))
