"""Looks up the input vectors of tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]  # numba does not mark it as exported
from numba.extending import overload

from stretto.local_engine.kernels.compiling.jit import inner
from stretto.local_engine.kernels.sizes import BFLOAT16, FLOAT32, PANEL, PANELS, TABLE
from stretto.local_engine.kernels.vectors import pointer


class Embedding(NamedTuple):
    """Input vectors of tokens.

    Attributes:
        address: of the numbers.
        layout: `TABLE`, one vector after the other; or the panels of the last product, if that has the same weights:
            `PANELS` or `PAIRS`, see `stretto.local_engine.kernels.panels`; or `BLOCKS`.
        stored: the type: `FLOAT32`, `BFLOAT16` or `FLOAT16`.
    """

    address: int
    layout: int
    stored: int


@inner
def of_numbers(embedding, line, target):
    """Read the input vector of a token as float32 # [hidden]."""
    panel, place, width, bits = line // PANEL, line % PANEL, len(target), target.view(np.uint32)
    size = (np.int64(2) ** 62,)
    floats = carray(pointer(embedding.address), size, np.float32)  # type: ignore[type-var]  # a number once compiled
    halves = carray(pointer(embedding.address), size, np.uint16)
    for at in range(width):
        if embedding.layout == TABLE:
            spot = line * width + at
        elif embedding.layout == PANELS:
            spot = (panel * width + at) * PANEL + place
        else:
            spot = ((panel * (width // 2) + at // 2) * PANEL + place) * 2 + at % 2
        if embedding.stored == FLOAT32:
            target[at] = floats[spot]
        elif embedding.stored == BFLOAT16:
            bits[at] = np.uint32(halves[spot]) << np.uint32(16)
        else:  # float16: multiplying by 2 to the 112 moves the exponent
            number = np.uint32(halves[spot])
            bits[at] = (number & np.uint32(0x7FFF)) << np.uint32(13)
            target[at] *= np.float32(-(2.0**112)) if number & np.uint32(0x8000) else np.float32(2.0**112)


def look_up(like: Any, embedding: Any, line: Any, target: Any) -> None:
    """Read the input vector of a token as float32 # [hidden]; ``like``: the dtype tag of the model's products."""
    raise NotImplementedError


@overload(look_up)
def _look_up_numbers(like, embedding, line, target):  # noqa: ARG001 - numba calls it by these names
    if like.dtype == types.uint8:  # see `stretto.local_engine.kernels.blocks`
        return None
    return lambda like, embedding, line, target: of_numbers(embedding, line, target)  # noqa: ARG005 - see above
