"""The trial of compiled code for [PAD] rows; see `stretto.local_engine.kernels.trials`."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.drafting.lexical.compiled.pads import CompiledPads
from stretto.local_engine.kernels import trials
from stretto.local_engine.kernels.sizes import PANEL

__all__ = ["forward"]

_ROWS, _UNITS = 3, PANEL


def forward(weights: str, pads: str) -> None:
    """Run a layer on a tree with a [PAD], with an adapter of ones. Raises RuntimeError for a wrong result.

    Args:
        weights: kind of the model's.
        pads: kind of the adapter's.
    """
    hidden = trials.HIDDEN
    units_in, units_out, last = (
        trials.ones(pads, *size) for size in ((_UNITS, hidden), (hidden, _UNITS), (_UNITS, 2 * hidden))
    )
    table = [[first.ctypes.data, units_out.ctypes.data, _UNITS] for first in (units_in, last)]
    trials.forward(
        weights,
        CompiledPads(
            like=trials.KINDS[pads][0],
            vectors=np.ones((1, hidden), np.float32),
            layers=np.array(table),
            padded=np.array([0, 0, 1], bool),
            added=np.zeros((_ROWS, hidden), np.float32),
            units=np.zeros(_ROWS * _UNITS, np.float32),
        ),
        blank=True,
    )
