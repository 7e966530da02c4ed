"""Trial run of a head's compiled layer; see `stretto.local_engine.kernels.trials`."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.drafting.heads.compiled.eagle import ChainRows, EagleScratch, EagleWeights, run
from stretto.local_engine.kernels.block_trials import ones_in_blocks
from stretto.local_engine.kernels.blocks import LIKE
from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.sizes import BLOCKS, FLOAT32, PANEL, TABLE
from stretto.local_engine.kernels.trials import HIDDEN

_WIDTH, _HEADS, _STORED = PANEL, 2, 1


def layer(embedded: str) -> None:
    """Run a layer of ones on rows of two sequences. Raises RuntimeError for wrong states.

    Args:
        embedded: ``blocks`` if the model's input vectors are in blocks, else ``numbers``.
    """
    count, every = 3, _HEADS + 2 * _STORED
    sizes = [(every * _WIDTH, 2 * HIDDEN), (HIDDEN, _HEADS * _WIDTH), (2 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN)]
    products = [ones_in_blocks(*size) for size in sizes]
    in_blocks = embedded == "blocks"
    vectors = ones_in_blocks(HIDDEN, HIDDEN) if in_blocks else np.ones((HIDDEN, HIDDEN), np.float32)
    weights = EagleWeights(
        embedding=Embedding(vectors.ctypes.data, BLOCKS if in_blocks else TABLE, FLOAT32),
        norms=np.ones((4, HIDDEN), np.float32),
        head_norms=np.empty((_HEADS + _STORED, 0), np.float32),
        bias=np.empty((0, _WIDTH), np.float32),
        frequencies=np.ones(_WIDTH // 2, np.float32),
        amplitude=np.float32(1),
        epsilon=np.float32(1e-5),
        num_kv_heads=_STORED,
        products=np.array([each.ctypes.data for each in products]),
        residual_is_normed=False,
    )
    caches = [np.zeros((1, PANEL, _STORED, _WIDTH), np.float32) for _ in range(4)]
    places = [each.ctypes.data for each in caches]
    rows = ChainRows(
        tokens=np.array([1, 2, 3]),
        before=np.ones((count, HIDDEN), np.float32),
        sequences=np.array([[0, 2, places[0], places[1], PANEL], [2, 3, places[2], places[3], PANEL]]),
        positions=np.array([[0, 1, 0]]),
    )
    shapes = [
        (HIDDEN,),
        (2 * HIDDEN,),
        (HIDDEN,),
        (every, _WIDTH),
        (_HEADS, _WIDTH),
        (2 * HIDDEN,),
        (HIDDEN,),
        (HIDDEN,),
    ]
    buffers = [np.zeros((count, *shape), np.float32) for shape in shapes]
    scratch = EagleScratch._make((*buffers, np.zeros(1, np.int64)))
    like = LIKE if in_blocks else np.empty(0, np.float32)
    run(LIKE, like, weights, rows, scratch, 0, 1)
    if not (np.isfinite(scratch.final).all() and np.allclose(scratch.final, 1, atol=1e-3)):
        raise RuntimeError("the compiled layer of a head gave states that are wrong")
