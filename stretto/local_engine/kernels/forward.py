"""A whole forward as one compiled function.

Tensors are passed as addresses, and the caller keeps them alive. All numbers but weights and embeddings are float32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # numba does not mark it as exported
from numpy.typing import NDArray

from stretto.local_engine.kernels import blanks
from stretto.local_engine.kernels.attention import mix, visible, write
from stretto.local_engine.kernels.compiling.jit import entry, inner, summing
from stretto.local_engine.kernels.embedding import Embedding, look_up
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import multiply_part
from stretto.local_engine.kernels.vectors import barrier, exp, pointer

_GELU = np.float32(math.sqrt(8 / math.pi))  # tanh form of GELU: x times the logistic function of x times these two
_BEND = np.float32(0.044715)


class Weights(NamedTuple):
    """The weights of a model.

    Attributes:
        embedding: input vectors.
        scale: factor of the input vectors.
        norms: two of each layer, and the last one # [2 * layers + 1, hidden]
        added_norms: of the outputs of attention and feed-forward # [2 * layers, hidden], or empty # [2 * layers, 0]
        head_norms: of queries and keys # [layers, heads, head_dim], empty if there are none
        first_bias: of queries, keys and values # [layers, heads, head_dim], or empty.
        second_bias: of the output of attention # [layers, hidden], or empty
        frequencies: of the rotary embeddings # [rotations, head_dim / 2]
        amplitudes: of the rotary embeddings # [rotations]
        rotations: the rotary embedding of each layer, as an index # [layers]
        epsilon: of the norms.
        gates_by_gelu: whether the feed-forward uses GELU instead of SiLU.
        windows: # [layers]
        num_kv_heads: key-value heads.
        products: addresses of the weights of queries, keys and values; attention output; gate and up; down
            # [layers, 4]
        vocabulary: address of the last product's weight.
    """

    embedding: Embedding
    scale: np.float32
    norms: NDArray[np.float32]
    added_norms: NDArray[np.float32]
    head_norms: NDArray[np.float32]
    first_bias: NDArray[np.float32]
    second_bias: NDArray[np.float32]
    frequencies: NDArray[np.float32]
    amplitudes: NDArray[np.float32]
    rotations: NDArray[np.int64]
    epsilon: np.float32
    gates_by_gelu: bool
    windows: NDArray[np.int64]
    num_kv_heads: int
    products: NDArray[np.int64]
    vocabulary: int


class Inputs(NamedTuple):
    """The rows of a forward; see `stretto.local_engine.model.forward.rows.Rows`.

    Attributes:
        tokens: of all rows but padding; those of one sequence are adjacent # [count]
        batches: the sequence of each # [count]
        lines: index of the row in its sequence # [count]
        positions: # [batch, rows]
        slots: # [batch, rows]
        sees: number of positions that each row sees, starting at the first # [batch, rows]
        ancestry: # [batch, rows, rows], or empty
        kv_len: slots in use.
        wanted: rows whose logits are computed, in order # [wanted]
        taken: for each layer, the index in ``states`` for its input, or -1 # [layers]
        states: output: the residual stream before some layers # [places, count, hidden]
    """

    tokens: NDArray[np.int64]
    batches: NDArray[np.int64]
    lines: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    sees: NDArray[np.int64]
    ancestry: NDArray[np.bool_]
    kv_len: int
    wanted: NDArray[np.int64]
    taken: NDArray[np.int64]
    states: NDArray[np.float32]


class KeyValues(NamedTuple):
    """Addresses of the keys and of the values of each layer # [layers]; slots of a sequence."""

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    slots: int


class Scratch(NamedTuple):
    """Buffers shared by the threads of a forward.

    Attributes:
        state: the residual stream # [count, hidden]
        heads: queries, keys and values # [count, heads, head_dim]
        mixed: output of attention # [count, heads, head_dim]
        gates: gates of the feed-forward, followed by their factors # [count, 2 * inner]
        passed: the gated products # [count, inner]
        final: what is added to the state, if that has a norm; at the end the normalised state # [count, hidden]
        counter: see `barrier` # [1]
    """

    state: NDArray[np.float32]
    heads: NDArray[np.float32]
    mixed: NDArray[np.float32]
    gates: NDArray[np.float32]
    passed: NDArray[np.float32]
    final: NDArray[np.float32]
    counter: NDArray[np.int64]


@summing
def normalise(source, weight, epsilon, target):
    """Scale each row to unit root mean square, then by the weight # [count, width]."""
    count, width = source.shape
    for row in range(count):
        line, own, squares = source[row], target[row], np.float32(0)
        for at in range(width):
            squares += line[at] * line[at]
        scale = np.float32(1) / math.sqrt(squares / np.float32(width) + epsilon)
        for at in range(width):
            own[at] = line[at] * scale * weight[at]


@inner
def gate_with_silu(source, target, part, parts):
    """Multiply the second half of each row by the SiLU of the first # [count, 2 * width] -> [count, width]."""
    count, width = target.shape
    first, last = width * part // parts, width * (part + 1) // parts
    for row in range(count):
        gate, up, own = source[row, first:last], source[row, width + first : width + last], target[row, first:last]
        for at in range(len(own)):
            own[at] = gate[at] / (np.float32(1) + exp(-gate[at])) * up[at]


@inner
def _gate(by_gelu, source, target, part, parts):
    """Multiply the second half of each row by the GELU or SiLU of the first."""
    if by_gelu:
        _gate_with_gelu(source, target, part, parts)
    else:
        gate_with_silu(source, target, part, parts)


@inner
def _gate_with_gelu(source, target, part, parts):
    """Multiply the second half of each row by the GELU of the first # [count, 2 * width] -> [count, width]."""
    count, width = target.shape
    first, last = width * part // parts, width * (part + 1) // parts
    for row in range(count):
        gate, up, own = source[row, first:last], source[row, width + first : width + last], target[row, first:last]
        for at in range(len(own)):
            bent = _GELU * gate[at] * (np.float32(1) + _BEND * gate[at] * gate[at])
            own[at] = gate[at] / (np.float32(1) + exp(-bent)) * up[at]


@inner
def _read_in(like, tokens, embedding, scale, adapter, state):
    """Look up the input vectors # [count, hidden]; the adapter provides those of blank rows."""
    for row in range(len(tokens)):
        token, own = tokens[row], state[row]
        if token >= 0:
            look_up(like, embedding, token, own)
            for at in range(len(own)):
                own[at] *= scale
        else:
            blanks.read_in(adapter, token, own)


@inner
def angles(batches, lines, positions, frequencies, amplitude, cosine, sine):
    """Compute the rotary cosines and sines of each row # [count, head_dim / 2]."""
    for row in range(len(batches)):
        position = np.float32(positions[batches[row], lines[row]])
        for at in range(len(frequencies)):
            angle = position * frequencies[at]
            cosine[row, at], sine[row, at] = math.cos(angle) * amplitude, math.sin(angle) * amplitude


@inner
def _add_bias(state, bias, part, parts):
    for row in range(len(state)):
        for at in range(len(bias) * part // parts, len(bias) * (part + 1) // parts):
            state[row, at] += bias[at]


@inner
def _add_normed(added, norm, epsilon, summand, state, counter, part, parts):
    """Normalise what a layer adds, and add this part of it to the state # [count, hidden]; nothing without a norm."""
    if len(norm) > 0:
        normalise(added, norm, epsilon, summand)
        count, width = state.shape
        for row in range(count):
            for at in range(width * part // parts, width * (part + 1) // parts):
                state[row, at] += summand[row, at]
        barrier(counter, parts)


@inner
def _take(state, target, part, parts):
    """Copy this part's share of the rows # [count, hidden]."""
    for row in range(len(state) * part // parts, len(state) * (part + 1) // parts):
        for at in range(state.shape[1]):
            target[row, at] = state[row, at]


@entry
def run(like, weights, adapter, inputs, key_values, scratch, logits, part, parts):
    """Run one part of a forward while other threads run the others: write keys and values, compute logits.

    Args:
        like: see `multiply_part`.
        weights: of the model.
        adapter: see `stretto.local_engine.kernels.blanks`; or ``None``
        inputs: the rows.
        key_values: of the sequences.
        scratch: buffers that the parts share.
        logits: output, with the vocabulary padded to whole panels # [wanted, out]
        part: index of this part.
        parts: number of parts.
    """
    state, heads, mixed, normed = scratch.state, scratch.heads, scratch.mixed, np.empty_like(scratch.state)
    count, batch, layers, width = len(inputs.tokens), len(inputs.positions), len(weights.products), heads.shape[2]
    flat_heads, flat_mixed = heads.reshape(count, heads.shape[1] * width), mixed.reshape(count, mixed.shape[1] * width)
    counter, put, add = scratch.counter.ctypes.data, np.int64(0), np.int64(1)

    added_norms, added, mode, summand = weights.added_norms, state, add, normed
    if added_norms.shape[1] > 0:
        added, mode, summand = scratch.final, put, np.empty_like(state)
    turns, half = len(weights.frequencies), width // 2
    cosines, sines = np.empty((turns, count, half), np.float32), np.empty((turns, count, half), np.float32)
    kv_len = -(-inputs.kv_len // PANEL) * PANEL
    seen, targets, window = np.empty((count, kv_len), np.bool_), np.empty(count, np.int64), np.int64(0)
    bounds, bends = np.empty((count, 2), np.int64), np.empty((count, 3), np.int64)
    paths = np.empty((count, inputs.ancestry.shape[1]), np.int64)
    if part == 0:
        _read_in(like, inputs.tokens, weights.embedding, weights.scale, adapter, state)
    for turn in range(turns):
        of_turn = (weights.frequencies[turn], weights.amplitudes[turn], cosines[turn], sines[turn])
        angles(inputs.batches, inputs.lines, inputs.positions, *of_turn)
    for row in range(count):
        targets[row] = inputs.slots[inputs.batches[row], inputs.lines[row]]
    barrier(counter, parts)

    for layer in range(layers):
        if inputs.taken[layer] >= 0:
            _take(state, inputs.states[inputs.taken[layer]], part, parts)
        shape = (batch, key_values.slots, weights.num_kv_heads, width)
        keys = carray(pointer(key_values.keys[layer]), shape, np.float32)
        values = carray(pointer(key_values.values[layer]), shape, np.float32)
        normalise(state, weights.norms[2 * layer], weights.epsilon, normed)
        blanks.multiply(
            adapter, like, layer, 0, normed, weights.products[layer, 0], flat_heads, put, counter, part, parts
        )
        if weights.windows[layer] != window:
            window = weights.windows[layer]
            of_rows = (inputs.batches, inputs.lines, inputs.slots, inputs.positions, inputs.sees)
            visible(*of_rows, inputs.ancestry, window, seen, bounds, paths, bends)
        barrier(counter, parts)
        turn = weights.rotations[layer]
        bias, norm, turned = weights.first_bias[layer], weights.head_norms[layer], (cosines[turn], sines[turn])
        heads_of = (heads, bias, norm, weights.epsilon, *turned)
        write(*heads_of, keys, values, inputs.batches, targets, mixed.shape[1], part, parts)
        barrier(counter, parts)
        mix(heads, keys, values, inputs.batches, seen, bounds, paths, bends, mixed, part, parts)
        barrier(counter, parts)
        blanks.multiply(
            adapter, like, layer, 1, flat_mixed, weights.products[layer, 1], added, mode, counter, part, parts
        )
        barrier(counter, parts)
        if weights.second_bias.shape[1] > 0:
            _add_bias(added, weights.second_bias[layer], part, parts)
            barrier(counter, parts)
        _add_normed(added, added_norms[2 * layer], weights.epsilon, summand, state, counter, part, parts)
        normalise(state, weights.norms[2 * layer + 1], weights.epsilon, normed)
        blanks.multiply(
            adapter, like, layer, 2, normed, weights.products[layer, 2], scratch.gates, put, counter, part, parts
        )
        barrier(counter, parts)
        _gate(weights.gates_by_gelu, scratch.gates, scratch.passed, part, parts)
        barrier(counter, parts)
        blanks.multiply(
            adapter, like, layer, 3, scratch.passed, weights.products[layer, 3], added, mode, counter, part, parts
        )
        barrier(counter, parts)
        _add_normed(added, added_norms[2 * layer + 1], weights.epsilon, summand, state, counter, part, parts)
        blanks.behind_layer(adapter, layer, normed, state, counter, part, parts)

    final = scratch.final
    if part == 0:
        normalise(state, weights.norms[2 * layers], weights.epsilon, final)
    barrier(counter, parts)
    blanks.behind_norm(adapter, inputs, final, counter, part, parts)
    chosen = final
    if len(inputs.wanted) < count:
        chosen = np.empty((len(inputs.wanted), final.shape[1]), np.float32)
        for place in range(len(inputs.wanted)):
            for at in range(final.shape[1]):
                chosen[place, at] = final[inputs.wanted[place], at]
    multiply_part(like, chosen, weights.vocabulary, logits, put, part, parts)
