"""Whether compiled code that chooses tokens runs here."""

from __future__ import annotations

import logging
from functools import cache

import numpy as np
import torch

from stretto.local_engine.kernels.draws import draw
from stretto.local_engine.kernels.ranks import best
from stretto.local_engine.kernels.switch import compiling

__all__ = ["can_choose"]

_log = logging.getLogger(__name__)


@cache
def can_choose() -> bool:
    """Whether `best` and `draw` run here: compiled by now, unless the compiler fails or the environment forbids it."""
    if not compiling():
        return False
    logits = torch.tensor([[0.0, 9.0, 1.0]], dtype=torch.float32)
    try:
        (ids, _), drawn = best(logits, [0], 2), draw(logits, [0.1], [(1, 1)], np.arange(3, dtype=np.int32))
    except Exception as error:  # noqa: BLE001 - a compiler that fails must not keep a model from running
        _log.warning("torch chooses tokens: %s", error)
        return False
    right = bool(ids.tolist() == [[1, 2]] and drawn == [1])
    if not right:
        _log.warning("torch chooses tokens: compiled code chose others")
    return right
