"""Lays out numbers in blocks, and reads them back; see `stretto.local_engine.kernels.block_kinds`. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_kinds import QUAD, BlockKind
from stretto.local_engine.kernels.sizes import PANEL

_HALF = PANEL // 2
_LOW = np.uint32(0x0F0F0F0F)  # low bits of four codes


@dataclass(frozen=True, slots=True)
class Numbers:
    """A weight in few bits, output by output.

    Attributes:
        kind: storage format of its numbers.
        codes: # [outer, inner]
        scales: in float16 # [outer, inner / group]
        minima: like the scales, if the kind has them.
    """

    kind: BlockKind
    codes: NDArray[Any]
    scales: NDArray[np.float16]
    minima: NDArray[np.float16] | None = None


def laid_out(numbers: Numbers, target: NDArray[np.uint8]) -> None:
    """Write numbers as blocks # [panels, groups, bytes of a block]; padding outputs of the last panel are 0."""
    kind, inner = numbers.kind, numbers.codes.shape[1]
    panels, groups, quads, low = len(target), inner // kind.group, kind.quads, kind.low_bytes
    codes = np.ascontiguousarray(_filled(numbers.codes.view(np.uint8), panels * PANEL))
    # Moved as words of four codes, [panels, groups, quads, 2, 8]
    laid = codes.view(np.uint32).reshape(panels, 2, _HALF, groups, quads).transpose(0, 3, 4, 1, 2)
    place = target[..., :low].view(np.uint32)
    if kind.bits == 8:
        place.reshape(panels, groups, quads, 2, _HALF, copy=False)[:] = laid
    else:
        both = (laid[..., 0, :] & _LOW) | ((laid[..., 1, :] & _LOW) << np.uint32(4))
        place.reshape(panels, groups, quads, _HALF, copy=False)[:] = both
    if kind.high_bits:
        shared = 4 // kind.high_bits  # quads whose high bits share bytes
        high = np.zeros((panels, groups, quads // shared, _HALF), np.uint32)
        for quad in range(shared):
            for half in range(2):
                _, bit = kind.high_place(quad, half)
                high |= (laid[:, :, quad::shared, half] >> np.uint32(4) & _LOW) << np.uint32(bit)
        target[..., low : kind.scales_at].view(np.uint32).reshape(high.shape, copy=False)[:] = high
    for number, array in enumerate((numbers.scales, numbers.minima)):
        if array is not None:
            at = kind.scales_at + number * 2 * PANEL
            of_panels = _filled(array, panels * PANEL).reshape(panels, PANEL, groups).transpose(0, 2, 1)
            target[..., at : at + 2 * PANEL] = np.ascontiguousarray(of_panels).view(np.uint8)


def read_back(kind: BlockKind, blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the float32 numbers of some panels # [panels, groups, bytes of a block] -> [panels, PANEL, inner]."""
    panels, groups, low = len(blocks), blocks.shape[1], kind.low_bytes
    codes = np.empty((panels, groups, kind.quads, 2, _HALF, QUAD), np.uint8)
    if kind.bits == 8:
        codes[:] = blocks[..., :low].reshape(codes.shape)
    else:
        packed = blocks[..., :low].reshape(panels, groups, kind.quads, _HALF, QUAD)
        codes[..., 0, :, :], codes[..., 1, :, :] = packed & 15, packed >> 4
    if kind.high_bits:
        for quad in range(kind.quads):
            for half in range(2):
                at, bit = kind.high_place(quad, half)
                high = (blocks[..., at : at + _HALF * QUAD] >> bit) & ((1 << kind.high_bits) - 1)
                codes[:, :, quad, half] |= (high << 4).reshape(panels, groups, _HALF, QUAD)
    scales, *minima = (
        np.ascontiguousarray(blocks[..., at : at + 2 * PANEL]).view(np.float16).astype(np.float32)[:, :, None, :, None]
        for at in range(kind.scales_at, kind.nbytes, 2 * PANEL)
    )
    signed = codes.view(np.int8).reshape(panels, groups, kind.quads, PANEL, QUAD)
    numbers = (signed.astype(np.float32) - np.float32(kind.offset)) * scales
    if minima:
        numbers += minima[0]
    return np.ascontiguousarray(numbers.transpose(0, 3, 1, 2, 4)).reshape(panels, PANEL, -1)


def _filled(numbers: NDArray[Any], outer: int) -> NDArray[Any]:
    """Append lines of 0."""
    missing = outer - len(numbers)
    return np.pad(numbers, ((0, missing), (0, 0))) if missing else numbers
