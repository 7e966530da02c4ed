"""Statistics of the predictions of [PAD] rows, which later requests start from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.gains import Gains

__all__ = ["UnitExperience"]

_KINDS = 256, 2048  # coarse and fine
_LEARN = 1 / 64


@dataclass(frozen=True, slots=True)
class UnitExperience:
    """Counts by kind of prediction, and what drafts have gained.

    A prediction belongs to a coarse kind and to a finer one within it. Each kind has seen h hits where the claimed
    probabilities added up to e; older ones count less. Its claims are multiplied by (h + m) / (e + 1), where m is the
    factor of the coarse kind, and 1 for the coarse kind itself.

    Attributes:
        counters: h and e of the coarse kinds, and of the fine ones # [kinds, 2] each
        gains: of drafts.
    """

    counters: tuple[NDArray[np.float64], NDArray[np.float64]] = field(
        default_factory=lambda: (np.zeros((_KINDS[0], 2)), np.zeros((_KINDS[1], 2)))
    )
    gains: Gains = field(default_factory=lambda: Gains(_LEARN))
