"""Trials of products with blocks; see `stretto.local_engine.kernels.trials`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS, GROUP
from stretto.local_engine.kernels.block_layout import Numbers, laid_out, read_back
from stretto.local_engine.kernels.block_tiles import MOST_ROWS
from stretto.local_engine.kernels.blocks import AT_FIRST
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import multiply as compiled_multiply

_INNER = 3 * GROUP


def multiply() -> None:
    """Multiply integers, for every kind and every number of rows that has special code.

    Raises RuntimeError for a wrong result.
    """
    draw = np.random.default_rng(0)
    for kind in BLOCK_KINDS:
        numbers = Numbers(
            kind,
            draw.integers(0, 1 << kind.bits, (2 * PANEL, _INNER), np.uint8),
            draw.integers(-4, 4, (2 * PANEL, _INNER // kind.group)).astype(np.float16),
            draw.integers(-4, 4, (2 * PANEL, _INNER // kind.group)).astype(np.float16) if kind.has_minima else None,
        )
        table = _table([numbers])
        dense = read_back(kind, _blocks(numbers)).reshape(2 * PANEL, _INNER)
        for count in range(1, MOST_ROWS + 2):
            rows = draw.integers(-127, 128, (count, _INNER)).astype(np.float32)
            rows[:, ::GROUP] = 127  # so that the scale of each group is 1
            result = np.empty((count, 2 * PANEL), np.float32)
            compiled_multiply(AT_FIRST, rows, table.ctypes.data, result, 0, 1)
            if not np.array_equal(result, rows @ dense.T):
                raise RuntimeError(f"compiled code multiplied {count} rows with codes of {kind.bits} bits wrongly")


def ones_in_blocks(outer: int, inner: int) -> NDArray[np.int64]:
    """Create a weight of ones, with each panel in another format."""
    weights = []
    for panel in range(outer // PANEL):
        kind = BLOCK_KINDS[panel % len(BLOCK_KINDS)]
        scales = np.ones((PANEL, inner // kind.group), np.float16)
        codes = np.full((PANEL, inner), kind.offset + 1, np.uint8)
        weights.append(Numbers(kind, codes, scales, scales * np.float16(0) if kind.has_minima else None))
    return _table(weights)


def _blocks(weight: Numbers) -> NDArray[np.uint8]:
    outer, inner = weight.codes.shape
    blocks = np.empty((outer // PANEL, inner // weight.kind.group, weight.kind.nbytes), np.uint8)
    laid_out(weight, blocks)
    return blocks


def _table(weights: list[Numbers]) -> NDArray[np.int64]:
    """Return a table followed by its blocks, in one array."""
    parts = [_blocks(weight) for weight in weights]
    lines: list[Any] = [(len(parts), sum(map(len, parts)), weights[0].codes.shape[1], 0)]
    size, panel = 4 * (1 + len(parts)), 0
    whole = np.empty(size + sum(each.nbytes for each in parts) // 8, np.int64)
    for weight, blocks in zip(weights, parts, strict=True):
        lines.append((weight.kind.number, panel, len(blocks), whole.ctypes.data + 8 * size))
        whole[size : size + blocks.nbytes // 8] = blocks.reshape(-1).view(np.int64)
        size, panel = size + blocks.nbytes // 8, panel + len(blocks)
    whole[: 4 * len(lines)] = np.array(lines).ravel()
    return whole
