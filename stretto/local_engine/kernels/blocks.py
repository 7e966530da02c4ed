"""Products with weights in blocks of 4 to 8 bits, each with a scale.

Rows are rounded to 8 bits, in groups of 32 with one scale each, and multiplied as integers.

A weight is a table # [1 + segments, 4]. Its first line begins with the numbers of segments and panels. Each other line
is a range of outputs in the same format: kind, first panel, number of panels, address.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]  # numba does not mark it as exported
from numba.extending import overload
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS, GROUP, QUAD
from stretto.local_engine.kernels.block_tiles import MOST_ROWS, block_tile
from stretto.local_engine.kernels.compiling.jit import inner
from stretto.local_engine.kernels.embedding import look_up, of_numbers
from stretto.local_engine.kernels.sizes import BLOCKS, PANEL
from stretto.local_engine.kernels.tiles import operand, spread
from stretto.local_engine.kernels.vectors import pointer

LIKE: NDArray[np.generic] = np.empty(0, np.uint8)
"""The dtype tag of weights in blocks, see `stretto.local_engine.kernels.tiles.multiply_part`."""

AT_FIRST: NDArray[np.generic] = np.empty(0, np.int8)
"""The tag for products only, which the first answer waits for: half the code to compile, and bit-identical results."""

_NBYTES = np.array([kind.nbytes for kind in BLOCK_KINDS])
_GROUPS = np.array([kind.group for kind in BLOCK_KINDS])
_ROUNDS = np.float32(1.5 * 2**23)  # adding it rounds to an integer, which is then in the low bits
_BITS = np.int32(_ROUNDS.view(np.int32))
_LARGEST = np.float32(127)
_FIELDS = 4
_BITS_OF = np.array([kind.bits for kind in BLOCK_KINDS])
_OFFSETS = np.array([kind.offset for kind in BLOCK_KINDS], np.int32)
_SCALES_AT = np.array([kind.scales_at for kind in BLOCK_KINDS])
_EIGHT, _HALF = PANEL // 2, PANEL // 2 * QUAD  # outputs, and bytes, of half a quad


class Codes(NamedTuple):
    """Rows in 8 bits.

    Attributes:
        codes: # [count, width]
        scales: of groups of 32 # [count, width / 32]
        sums: of the codes of such a group.
        short_sums: of 16 codes # [count, width / 16]
        lows: sums times scales.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    sums: NDArray[np.int32]
    short_sums: NDArray[np.int32]
    lows: NDArray[np.float32]


@inner
def rounded(rows):
    """Round rows of float32 # [count, width] to `Codes`."""
    count, width = rows.shape
    groups = width // GROUP
    codes, short = np.empty((count, width), np.int8), np.empty((count, 2 * groups), np.int32)
    scales, sums = np.empty((count, groups), np.float32), np.empty((count, groups), np.int32)
    lows, scaled = np.empty((count, groups), np.float32), np.empty(GROUP, np.float32)
    sizes, whole, most = rows.view(np.int32), scaled.view(np.int32), np.empty(1, np.int32)
    largest = most.view(np.float32)
    for row in range(count):
        for group in range(groups):
            begin, high = group * GROUP, np.int32(0)
            for at in range(GROUP):
                high = max(high, sizes[row, begin + at] & np.int32(0x7FFFFFFF))
            most[0] = high
            inverse = _LARGEST / largest[0] if largest[0] > 0 else np.float32(0)
            for at in range(GROUP):
                scaled[at] = rows[row, begin + at] * inverse + _ROUNDS
            for at in range(GROUP):
                codes[row, begin + at] = whole[at] - _BITS
            for half in range(2):
                total, first = np.int32(0), begin + half * (GROUP // 2)
                for at in range(GROUP // 2):
                    total += np.int32(codes[row, first + at])
                short[row, 2 * group + half] = total
            scales[row, group] = largest[0] / _LARGEST
            sums[row, group] = short[row, 2 * group] + short[row, 2 * group + 1]
            lows[row, group] = np.float32(sums[row, group]) * scales[row, group]
    return Codes(codes, scales, sums, short, lows)


@inner
def table_of(weight):
    """Return the table at an address."""
    return carray(pointer(weight), (2**20, _FIELDS), np.int64)


@inner
def multiply_blocks(like, rows, weight, result, add, part, parts):
    """Multiply `Codes` of rows by one part of a weight; see `multiply_part`."""
    table, (count, width), out = table_of(weight), rows.codes.shape, result.shape[1]
    begin, end = table[0, 1] * part // parts, table[0, 1] * (part + 1) // parts
    codes, scales, lows = rows.codes.ctypes.data, rows.scales.ctypes.data, rows.lows.ctypes.data
    sums, short, target = rows.sums.ctypes.data, rows.short_sums.ctypes.data, result.ctypes.data
    for segment in range(1, table[0, 0] + 1):
        kind, start = table[segment, 0], table[segment, 1]
        group = _GROUPS[kind]
        step, used = width // group * _NBYTES[kind], sums if group == GROUP else short
        for panel in range(max(begin, start), min(end, start + table[segment, 2])):
            strip, spot = table[segment, 3] + (panel - start) * step, target + panel * 4 * PANEL
            row, left = np.int64(0), -(-count // MOST_ROWS)
            while left > 0:
                many = -(-(count - row) // left)  # spread evenly over the tiles
                of_scales, of_sums = row * (width // GROUP) * 4, row * (width // group) * 4
                block_tile(
                    like, kind, many, codes + row * width, scales + of_scales, used + of_sums, lows + of_scales, width,
                    strip, spot + row * 4 * out, 4 * out, add,
                )  # fmt: skip
                row, left = row + many, left - 1


@inner
def _line_of(weight, line, target):
    """Read one line of a weight in float32 # [inner]."""
    table, width, panel, place = table_of(weight), len(target), line // PANEL, line % PANEL
    for segment in range(1, table[0, 0] + 1):
        start = table[segment, 1]
        if start <= panel < start + table[segment, 2]:
            kind = table[segment, 0]
            step, group = _NBYTES[kind], _GROUPS[kind]
            strip = table[segment, 3] + (panel - start) * (width // group) * step
            blocks = carray(pointer(strip), (width // group, step), np.uint8)
            for at in range(width // group):
                _numbers_of(kind, blocks[at], place, target[at * group : (at + 1) * group])


@inner
def _numbers_of(kind, block, place, target):
    """Read the numbers of one output in a block # [group]."""
    bits, scales_at = _BITS_OF[kind], _SCALES_AT[kind]
    halves = block[scales_at:].view(np.uint16)
    scale, least = _widened(halves[place]), np.float32(0)
    if len(halves) > PANEL:
        least = _widened(halves[PANEL + place])
    half, lane = place // _EIGHT, place % _EIGHT
    for at in range(len(target)):
        quad, spot = at // QUAD, lane * QUAD + at % QUAD
        if bits == 8:
            code = np.int32(np.int8(block[(2 * quad + half) * _HALF + spot]))
        else:
            code = np.int32((block[quad * _HALF + spot] >> (4 * half)) & 15)
            if bits > 4:
                high = bits - 4
                shared = 4 // high
                byte = np.int32(block[len(target) // QUAD * _HALF + quad // shared * _HALF + spot])
                code |= ((byte >> ((2 * (quad % shared) + half) * high)) & ((1 << high) - 1)) << 4
        target[at] = np.float32(code - _OFFSETS[kind]) * scale + least


@inner
def _widened(half):
    """Widen the bits of a float16: multiplying by 2 to the 112 moves the exponent."""
    bits = np.empty(1, np.uint32)
    number = np.uint32(half)
    bits[0] = (number & np.uint32(0x7FFF)) << np.uint32(13)
    return bits.view(np.float32)[0] * np.float32(-(2.0**112) if number & np.uint32(0x8000) else 2.0**112)


def _of_blocks(like: Any) -> bool:
    return like.dtype in (types.uint8, types.int8)


@overload(operand)
def _codes_of_rows(like, rows):  # noqa: ARG001 - numba calls it by these names
    return (lambda like, rows: rounded(rows)) if _of_blocks(like) else None  # noqa: ARG005 - see above


@overload(spread)
def _spread_blocks(like, rows, weight, result, add, part, parts):  # noqa: ARG001 - see above
    if not _of_blocks(like):
        return None
    return lambda like, rows, weight, result, add, part, parts: multiply_blocks(  # noqa: PLW0108 - numba takes functions only
        like, rows, weight, result, add, part, parts
    )


@overload(look_up)
def _look_up_in_blocks(like, embedding, line, target):  # noqa: ARG001 - see above
    if not _of_blocks(like):
        return None

    def look(like, embedding, line, target):  # noqa: ARG001 - see above
        if embedding.layout == BLOCKS:
            _line_of(embedding.address, line, target)
        else:
            of_numbers(embedding, line, target)

    return look
