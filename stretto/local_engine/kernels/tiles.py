"""Products of rows with weights in panels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from stretto.local_engine.kernels.compiling.jit import entry, inner
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.vectors import ABREAST, MOST, tile


@inner
def stripe(like, source, stride, count, width, weight, step, panel_step, target, out, add, first, last):
    """Multiply rows by the panels from ``first`` to ``last``; each panel is read once and stays in the cache."""
    panel, tiles = first, -(-count // MOST)
    abreast = ABREAST[-(-count // tiles)]
    while panel < last:
        strip, spot = weight + panel * panel_step, target + panel * 4 * PANEL
        many = abreast if last - panel >= abreast else np.int64(1)
        row, left = 0, tiles
        while left > 0:
            rows = -(-(count - row) // left)
            line, place = source + row * stride, spot + row * out
            tile(like, rows, many, line, stride, width, strip, step, panel_step, place, out, add)
            row, left = row + rows, left - 1
        panel += many


@inner
def _rounded(rows):
    """Round float32 to bfloat16, half to even, and put them in pairs # [count, width] -> [count, width / 2]."""
    count, width = rows.shape
    pairs, bits = np.empty((count, width // 2), np.uint32), rows.view(np.uint32)
    halves = pairs.view(np.uint16)
    for row in range(count):
        for at in range(width):
            number = bits[row, at]
            halves[row, at] = (number + np.uint32(0x7FFF) + ((number >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return pairs


def operand(like: Any, rows: Any) -> Any:
    """Convert rows to the form that weights like these are multiplied by."""
    raise NotImplementedError


def spread(like: Any, rows: Any, weight: Any, result: Any, add: Any, part: Any, parts: Any) -> None:
    """See `multiply_part`; the rows are the output of `operand`, and the caller keeps them alive."""
    raise NotImplementedError


def _in_panels(like: Any) -> bool:
    """Return whether it is the tag of numbers in panels; other modules implement these functions for other tags."""
    return like.dtype in (types.uint16, types.int16, types.float32, types.uint32)


@overload(operand)
def _choose_operand(like, rows):  # noqa: ARG001 - numba calls it by these names
    if like.dtype == types.uint32:
        return lambda like, rows: _rounded(rows)  # noqa: ARG005 - see above
    return (lambda like, rows: rows) if _in_panels(like) else None  # noqa: ARG005 - see above


@overload(spread)
def _spread_panels(like, rows, weight, result, add, part, parts):  # noqa: ARG001 - see above
    if not _in_panels(like):
        return None
    return lambda like, rows, weight, result, add, part, parts: _multiply(  # noqa: PLW0108 - numba takes functions only
        like, rows, weight, result, add, part, parts
    )


@inner
def multiply_part(like, rows, weight, result, add, part, parts):
    """Multiply rows # [count, width] by one part of a weight in panels # [out / PANEL, width, PANEL] -> [count, out].

    Args:
        like: dtype tag, an array of the weight's storage type: uint16 for bfloat16, int16 for float16, or float32;
            uint32 for bfloat16 in pairs # [out / PANEL, width / 2, PANEL, 2], multiplied by rows that are rounded to
            bfloat16.
        rows: float32.
        weight: its address.
        result: output; other parts write the rest of it.
        add: 1 to add to the result, 0 to replace it.
        part: index of this part of the panels.
        parts: number of parts.
    """
    spread(like, operand(like, rows), weight, result, add, part, parts)


@inner
def _multiply(like, operand, weight, result, add, part, parts):
    """See `spread`; only the address of the operand is used here."""
    (count, width), out = operand.shape, result.shape[1]
    panels, step = out // PANEL, PANEL * like.itemsize
    first, last = panels * part // parts, panels * (part + 1) // parts
    source, target = operand.ctypes.data, result.ctypes.data
    stripe(like, source, 4 * width, count, width, weight, step, step * width, target, 4 * out, add, first, last)


@entry
def multiply(like, rows, weight, result, part, parts):
    """Replace one part of a result; see `multiply_part`."""
    multiply_part(like, rows, weight, result, np.int64(0), part, parts)
