"""The trial of a forward with low-rank changes; see `stretto.local_engine.kernels.trials`."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.kernels import trials
from stretto.local_engine.kernels.changes import CompiledChanges

__all__ = ["forward"]

_ROWS, _RANK, _PRODUCTS = 3, 2, 4


def forward(weights: str) -> None:
    """Run a layer whose outputs all grow alike in the second row. Raises RuntimeError for a wrong result.

    ``weights``: their kind.
    """
    hidden = trials.HIDDEN
    ones = np.ones(_RANK * 4 * hidden, np.float32)
    line = [_RANK, 0, hidden, *[ones.ctypes.data] * 3]
    table = [[[[number, number + 1] for number in (0, 0, 1, 0)]]]
    chosen = np.array([-1, 0, -1])
    narrow, made = np.zeros((_ROWS, _RANK), np.float32), np.zeros((_ROWS, hidden), np.float32)
    changes = np.array([line, [_RANK, 0, 2 * hidden, *line[3:]]])
    trials.forward(weights, CompiledChanges(np.array(table), changes, chosen, narrow, made))
