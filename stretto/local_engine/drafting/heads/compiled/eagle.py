"""The layer of an EAGLE-3 head as one compiled function, for chains of multiple sequences.

Tensors are passed as addresses; the caller keeps them alive. Weights are 8-bit blocks, everything else is float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # numba does not export it explicitly
from numpy.typing import NDArray

from stretto.local_engine.kernels.attention import mix, visible, write
from stretto.local_engine.kernels.compiling.jit import entry
from stretto.local_engine.kernels.embedding import Embedding, look_up
from stretto.local_engine.kernels.forward import angles, gate_with_silu, normalise
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import multiply_part
from stretto.local_engine.kernels.vectors import barrier, pointer


class EagleWeights(NamedTuple):
    """The weights of a head.

    Attributes:
        embedding: the model's input vectors of tokens.
        norms: weights of the norms of the input vector, of the previous row, of the feed-forward, and of the last one
            # [4, hidden]
        head_norms: norms of queries and keys # [heads, head_dim], or empty # [heads, 0]
        bias: bias of queries, keys and values # [heads, head_dim], or empty # [0, head_dim]
        frequencies: frequencies of the rotary embedding # [head_dim / 2]
        amplitude: amplitude of the rotary embedding.
        epsilon: epsilon of the norms.
        num_kv_heads: number of key-value heads.
        products: addresses of the weights of query, key and value; attention output; gate and up; down # [4]
        residual_is_normed: whether the residual stream begins with the normalised previous row.
    """

    embedding: Embedding
    norms: NDArray[np.float32]
    head_norms: NDArray[np.float32]
    bias: NDArray[np.float32]
    frequencies: NDArray[np.float32]
    amplitude: np.float32
    epsilon: np.float32
    num_kv_heads: int
    products: NDArray[np.int64]
    residual_is_normed: bool


class ChainRows(NamedTuple):
    """Rows that see the previous ones of their sequence.

    Attributes:
        tokens: token ids # [count]
        before: output of the previous rows # [count, hidden]
        sequences: for each sequence its first row, the row after its last one, the addresses of its keys and values,
            and the number of slots there # [sequences, 5]
        positions: positions, which are also the slots # [1, count]
    """

    tokens: NDArray[np.int64]
    before: NDArray[np.float32]
    sequences: NDArray[np.int64]
    positions: NDArray[np.int64]


class EagleScratch(NamedTuple):
    """Buffers shared by the threads.

    Attributes:
        vectors: input vectors # [count, hidden]
        read: input of attention # [count, 2 * hidden]
        state: the residual stream, an output # [count, hidden]
        heads: queries, keys and values # [count, heads, head_dim]
        mixed: output of attention # [count, heads, head_dim]
        gates: gates of the feed-forward, followed by what they are multiplied with # [count, 2 * inner]
        passed: products of both # [count, inner]
        final: normalised state, an output # [count, hidden]
        counter: see `barrier` # [1]
    """

    vectors: NDArray[np.float32]
    read: NDArray[np.float32]
    state: NDArray[np.float32]
    heads: NDArray[np.float32]
    mixed: NDArray[np.float32]
    gates: NDArray[np.float32]
    passed: NDArray[np.float32]
    final: NDArray[np.float32]
    counter: NDArray[np.int64]


@entry
def run(like, embedded_like, weights, rows, scratch, part, parts):
    """Run one part of the layer, while the other parts run in other threads.

    Args:
        like: see `multiply_part`.
        embedded_like: see `look_up`.
        weights: weights of the head.
        rows: rows of one or more sequences.
        scratch: buffers shared by the parts.
        part: number of this part.
        parts: number of parts.
    """
    state, read, heads, mixed = scratch.state, scratch.read, scratch.heads, scratch.mixed
    (count, hidden), every, queries, width = state.shape, heads.shape[1], mixed.shape[1], heads.shape[2]
    flat_heads, flat_mixed = heads.reshape(count, every * width), mixed.reshape(count, queries * width)
    counter, put, add, epsilon = scratch.counter.ctypes.data, np.int64(0), np.int64(1), weights.epsilon
    if part == 0:
        for row in range(count):
            look_up(embedded_like, weights.embedding, rows.tokens[row], scratch.vectors[row])
        normalise(scratch.vectors, weights.norms[0], epsilon, read[:, :hidden])
        normalise(rows.before, weights.norms[1], epsilon, read[:, hidden:])
        for row in range(count):
            for at in range(hidden):
                state[row, at] = read[row, hidden + at] if weights.residual_is_normed else rows.before[row, at]

    cosine, sine = np.empty((count, width // 2), np.float32), np.empty((count, width // 2), np.float32)
    first, lines, slots = np.zeros(count, np.int64), np.arange(count), rows.positions
    angles(first, lines, slots, weights.frequencies, weights.amplitude, cosine, sine)
    seen = np.empty((count, -(-(slots.max() + 1) // PANEL) * PANEL), np.bool_)
    bounds, bends = np.empty((count, 2), np.int64), np.empty((count, 3), np.int64)
    paths, nothing = np.empty((count, 0), np.int64), np.empty((0, 0, 0), np.bool_)
    visible(first, lines, slots, slots, slots + 1, nothing, np.int64(2**62), seen, bounds, paths, bends)
    barrier(counter, parts)
    multiply_part(like, read, weights.products[0], flat_heads, put, part, parts)
    barrier(counter, parts)
    for number in range(len(rows.sequences)):
        begin, end, keys_at, values_at, kv_len = rows.sequences[number]
        shape = (1, kv_len, weights.num_kv_heads, width)
        keys, values = carray(pointer(keys_at), shape, np.float32), carray(pointer(values_at), shape, np.float32)
        turned = (epsilon, cosine[begin:end], sine[begin:end])
        own, targets = heads[begin:end], slots[0, begin:end]
        write(own, weights.bias, weights.head_norms, *turned, keys, values, first, targets, queries, part, parts)
    barrier(counter, parts)
    for number in range(len(rows.sequences)):
        begin, end, keys_at, values_at, kv_len = rows.sequences[number]
        shape = (1, kv_len, weights.num_kv_heads, width)
        keys, values = carray(pointer(keys_at), shape, np.float32), carray(pointer(values_at), shape, np.float32)
        of_rows = (seen[begin:end], bounds[begin:end], paths[begin:end], bends[begin:end])
        mix(heads[begin:end], keys, values, first, *of_rows, mixed[begin:end], part, parts)
    barrier(counter, parts)
    multiply_part(like, flat_mixed, weights.products[1], state, add, part, parts)
    barrier(counter, parts)
    normed = np.empty_like(state)
    normalise(state, weights.norms[2], epsilon, normed)
    multiply_part(like, normed, weights.products[2], scratch.gates, put, part, parts)
    barrier(counter, parts)
    gate_with_silu(scratch.gates, scratch.passed, part, parts)
    barrier(counter, parts)
    multiply_part(like, scratch.passed, weights.products[3], state, add, part, parts)
    barrier(counter, parts)
    if part == 0:
        normalise(state, weights.norms[3], epsilon, scratch.final)
