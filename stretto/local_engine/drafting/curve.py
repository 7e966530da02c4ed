"""What a step costs by its rows, as compiled code reads it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["Curve"]


class Curve:
    """Gives what `StepCost.curve` says; its table becomes an array when it has changed, not at every step."""

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self._known: list[float] = []
        self._table = np.empty(0)

    def __call__(self) -> tuple[NDArray[np.float64], float, float, float, int]:
        """For the coming step."""
        table, plain, unit, surplus, own = self._cost.curve()
        if table is not self._known:
            self._known, self._table = table, np.array(table)
        return self._table, plain, unit, surplus, own
