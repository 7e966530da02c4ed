"""Products of rows with weights in panels."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.compiled.jit import VERSION, entry, inner
from stretto.local_engine.compiled.vectors import ABREAST, MOST, PANEL, tile

__all__ = ["multiply", "multiply_part", "stripe"]


@inner
def stripe(like, source, stride, count, width, weight, step, panel_step, target, out, add, first, last):
    """Multiply rows with the panels from ``first`` up to ``last``: each is read once, and stays in the cache."""
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
def multiply_part(like, rows, weight, result, add, part, parts):
    """Multiply rows # [count, width] by one part of a weight in panels # [out / PANEL, width, PANEL] -> [count, out].

    Args:
        like: an array of the type the weight is held in: uint16 for bfloat16, int16 for float16, or float32.
        rows: what is multiplied.
        weight: its address.
        result: where to; other parts write the rest of it.
        add: 1 to add to what is there, 0 to replace it.
        part: of the panels.
        parts: that they are divided into.
    """
    (count, width), out = rows.shape, result.shape[1]
    panels, step = out // PANEL, PANEL * like.itemsize
    first, last = panels * part // parts, panels * (part + 1) // parts
    source, target = rows.ctypes.data, result.ctypes.data
    stripe(like, source, 4 * width, count, width, weight, step, step * width, target, 4 * out, add, first, last)


@entry
def multiply(like, rows, weight, result, part, parts, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """Replace one part of a result; see `multiply_part`."""
    multiply_part(like, rows, weight, result, np.int64(0), part, parts)
