"""Trials of compiled code with known results. Calling one compiles all functions that it calls.

They first run in the compiler's process, which ends if this processor cannot run the code. They do not import torch,
which takes too long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_tiles import MOST_ROWS
from stretto.local_engine.kernels.block_trials import ones_in_blocks
from stretto.local_engine.kernels.blocks import LIKE
from stretto.local_engine.kernels.draws import drawn
from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.forward import Inputs, KeyValues, Scratch, Weights, run
from stretto.local_engine.kernels.ranks import ranked
from stretto.local_engine.kernels.sizes import FLOAT32, PANEL, TABLE
from stretto.local_engine.kernels.tiles import multiply as compiled_multiply
from stretto.local_engine.kernels.vectors import MOST, PAIRED

KINDS: dict[str, tuple[NDArray[np.generic], int]] = {
    "bfloat16": (np.empty(0, np.uint16), 0x3F80),
    "float16": (np.empty(0, np.int16), 0x3C00),
    "float32": (np.empty(0, np.float32), 1),
    "pairs": (np.empty(0, np.uint32), 0x3F803F80) if PAIRED else (np.empty(0, np.uint16), 0x3F80),
    "blocks": (LIKE, 1),
}
"""An empty array of the dtype by which compiled code selects, and the number 1 in it, by kind of weights."""

HIDDEN = 2 * PANEL
"""Width of a row in the trial of `forward`."""

_WIDTH, _HEADS, _STORED = PANEL, 2, 1


def choose() -> None:
    """Rank and draw tokens. Raises RuntimeError for a wrong result."""
    logits = np.array([[0.0, 9.0, 1.0]], np.float32)
    ids, probabilities = np.empty((1, 2), np.int64), np.empty((1, 2), np.float32)
    ranked(logits.ctypes.data, logits.nbytes, 3, np.zeros(1, np.int64), ids, probabilities)
    found, scales, keys = np.empty(1, np.int64), np.full(1, 0.1, np.float32), np.ones((1, 2), np.int32)
    drawn(logits.ctypes.data, logits.nbytes, scales, keys, np.arange(3, dtype=np.int32), found)
    if ids.tolist() != [[1, 2]] or found.tolist() != [1] or not 0.99 < probabilities[0, 0] <= 1:
        raise RuntimeError(
            f"compiled code chose {ids.tolist()} and {found.tolist()} where 1 is the most probable token"
        )


def multiply(weights: str) -> None:
    """Multiply rows of ones by ones, for every number of rows that has special code. Raises RuntimeError."""
    like, panels = KINDS[weights][0], ones(weights, 4 * PANEL, HIDDEN)
    for count in range(1, MOST + 2):
        rows, result = np.ones((count, HIDDEN), np.float32), np.empty((count, 4 * PANEL), np.float32)
        compiled_multiply(like, rows, panels.ctypes.data, result, 0, 1)
        _check(result, HIDDEN)


def forward(weights: str, adapter: Any = None, *, blank: bool = False) -> None:
    """Run a layer of ones on a tree of three rows; with weights in blocks and no adapter, on trees of each size.

    Raises RuntimeError for logits that are not finite.

    Args:
        weights: their kind.
        adapter: see `stretto.local_engine.kernels.blanks`.
        blank: whether the third row is blank.
    """
    everything = _HEADS + 2 * _STORED
    sizes = [
        (everything * _WIDTH, HIDDEN),
        (HIDDEN, _HEADS * _WIDTH),
        (2 * HIDDEN, HIDDEN),
        (HIDDEN, HIDDEN),
        (HIDDEN, HIDDEN),
    ]
    panels = [ones(weights, *size) for size in sizes]
    keys, values = (np.zeros((1, PANEL, _STORED, _WIDTH), np.float32) for _ in range(2))
    vectors = np.ones((HIDDEN, HIDDEN), np.float32)
    model = Weights(
        embedding=Embedding(vectors.ctypes.data, TABLE, FLOAT32),
        scale=np.float32(1),
        norms=np.ones((3, HIDDEN), np.float32),
        added_norms=np.empty((2, 0), np.float32),
        head_norms=np.empty((1, _HEADS + _STORED, 0), np.float32),
        first_bias=np.empty((1, 0, _WIDTH), np.float32),
        second_bias=np.empty((1, 0), np.float32),
        frequencies=np.ones((1, _WIDTH // 2), np.float32),
        amplitudes=np.ones(1, np.float32),
        rotations=np.zeros(1, np.int64),
        epsilon=np.float32(1e-5),
        gates_by_gelu=False,
        windows=np.full(1, 2**62),
        num_kv_heads=_STORED,
        products=np.array([[each.ctypes.data for each in panels[:4]]]),
        vocabulary=panels[4].ctypes.data,
    )
    shapes = [(HIDDEN,), (everything, _WIDTH), (_HEADS, _WIDTH), (2 * HIDDEN,), (HIDDEN,), (HIDDEN,)]
    key_values = KeyValues(np.array([keys.ctypes.data]), np.array([values.ctypes.data]), PANEL)
    for count in (
        range(1, MOST_ROWS + 2) if weights == "blocks" and adapter is None else (3,)
    ):  # adapters are made for three rows
        shared: list[Any] = [np.zeros((count, *shape), np.float32) for shape in shapes]
        scratch = Scratch._make((*shared, np.zeros(1, np.int64)))
        logits = np.empty((count, HIDDEN), np.float32)
        run(KINDS[weights][0], model, adapter, _tree(count, blank=blank), key_values, scratch, logits, 0, 1)
        _check(logits[:2], HIDDEN)
        if not np.isfinite(logits).all():
            raise RuntimeError("compiled code made logits that are not finite")


def _tree(count: int, *, blank: bool) -> Inputs:
    """Return rows that, except the first, see the first and themselves; ``blank``: the third row is blank."""
    ancestry = np.eye(count, dtype=bool)
    ancestry[:, 0] = True
    positions = np.minimum(np.arange(count), 1)[None]
    return Inputs(
        tokens=np.array([1, 2, -1 if blank else 3, *[3] * count])[:count].copy(),
        batches=np.zeros(count, np.int64),
        lines=np.arange(count),
        positions=positions,
        slots=np.arange(count)[None].copy(),
        sees=positions + 1,
        ancestry=ancestry[None].copy(),
        kv_len=count,
        wanted=np.arange(count),
        taken=np.zeros(1, np.int64),
        states=np.empty((1, count, HIDDEN), np.float32),
    )


def ones(kind: str, outer: int, inner: int) -> NDArray[np.generic]:
    """Create a weight of ones in panels; see `stretto.local_engine.kernels.panels.Panels`."""
    like, one = KINDS[kind]
    if like is LIKE:
        return ones_in_blocks(outer, inner)
    return np.full((outer // PANEL, inner // 2 if like.dtype == np.uint32 else inner, PANEL), one, like.dtype)


def _check(found: NDArray[np.float32], expected: float) -> None:
    if not np.allclose(found, expected, rtol=1e-3):
        raise RuntimeError(f"compiled code gave {found.ravel()[0]} instead of {expected}")
