"""A whole forward.

Addresses stand for tensors that the caller keeps alive; all numbers but weights and input vectors are float32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]  # numba does not say that it exports it
from numba.extending import overload
from numpy.typing import NDArray

from stretto.local_engine.kernels.attention import mix, visible, write
from stretto.local_engine.kernels.jit import entry, inner, summing
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import multiply_part
from stretto.local_engine.kernels.vectors import exp, meet, pointer

__all__ = ["Asked", "Held", "Pads", "Room", "Weights", "run"]


class Weights(NamedTuple):
    """A model.

    Attributes:
        embedding: float32, or bfloat16 as it is held # [vocabulary, hidden]
        norms: two of each layer and the last # [2 * layers + 1, hidden]
        head_norms: of queries and keys # [layers, heads, head_dim], without numbers where there are none.
        first_bias: of queries, keys and values # [layers, heads, head_dim], or empty.
        second_bias: of what attention gives # [layers, hidden], or empty.
        frequencies: of the rotation # [head_dim / 2]
        amplitude: of the rotation.
        epsilon: of the norms.
        windows: # [layers]
        stored: key-value heads.
        products: addresses of queries, keys and values; attention's; gate and up; down # [layers, 4]
        vocabulary: address of the last product.
    """

    embedding: NDArray[np.float32] | NDArray[np.uint16]
    norms: NDArray[np.float32]
    head_norms: NDArray[np.float32]
    first_bias: NDArray[np.float32]
    second_bias: NDArray[np.float32]
    frequencies: NDArray[np.float32]
    amplitude: np.float32
    epsilon: np.float32
    windows: NDArray[np.int64]
    stored: int
    products: NDArray[np.int64]
    vocabulary: int


class Pads(NamedTuple):
    """An adapter for [PAD] rows, and which rows they are; see `stretto.local_engine.model.pads`.

    Attributes:
        vectors: of the places # [places, hidden]
        layers: addresses of what leads into the units and out of them, and their number; the last layer at the end
            # [layers + 1, 3]
        padded: # [count], or empty
    """

    vectors: NDArray[np.float32]
    layers: NDArray[np.int64]
    padded: NDArray[np.bool_]


class Asked(NamedTuple):
    """Rows; see `stretto.local_engine.model.cache.Rows`.

    Attributes:
        tokens: of all rows but padding; those of one sequence stand side by side # [count]
        batches: the sequence of each # [count]
        lines: which of its rows it is # [count]
        positions: # [batch, rows]
        slots: # [batch, rows]
        ancestry: # [batch, rows, rows], or empty
        extent: slots in use.
        wanted: rows that are to be scored, in order # [wanted]
    """

    tokens: NDArray[np.int64]
    batches: NDArray[np.int64]
    lines: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    ancestry: NDArray[np.bool_]
    extent: int
    wanted: NDArray[np.int64]


class Held(NamedTuple):
    """Addresses of the layers' keys and of their values # [layers]; slots of a sequence."""

    keys: NDArray[np.int64]
    values: NDArray[np.int64]
    slots: int


class Room(NamedTuple):
    """What the parts write for each other.

    Attributes:
        state: the residual stream # [count, hidden]
        heads: queries, keys and values # [count, heads, head_dim]
        mixed: what attention gives # [count, heads, head_dim]
        gates: and beside them what they are multiplied with # [count, 2 * inner]
        passed: what they let through # [count, inner]
        final: states # [count, hidden]
        added: by [PAD]s' units # [count, hidden]
        units: theirs # [count * units]
        met: see `meet` # [1]
    """

    state: NDArray[np.float32]
    heads: NDArray[np.float32]
    mixed: NDArray[np.float32]
    gates: NDArray[np.float32]
    passed: NDArray[np.float32]
    final: NDArray[np.float32]
    added: NDArray[np.float32]
    units: NDArray[np.float32]
    met: NDArray[np.int64]


@summing
def _normalise(source, weight, epsilon, target):
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
def _gate(source, target, part, parts):
    """Multiply the second half of each row by the SiLU of the first # [count, 2 * width] -> [count, width]."""
    count, width = target.shape
    first, last = width * part // parts, width * (part + 1) // parts
    for row in range(count):
        gate, up, own = source[row, first:last], source[row, width + first : width + last], target[row, first:last]
        for at in range(len(own)):
            own[at] = gate[at] / (np.float32(1) + exp(-gate[at])) * up[at]


def _look_up(table: Any, line: Any, target: Any) -> None:
    """Put a line of a table into float32s."""
    raise NotImplementedError


@overload(_look_up)
def _choose_look_up(table, line, target):  # noqa: ARG001 - numba calls it by these names
    def widen(table, line, target):
        bits = target.view(np.uint32)
        for at in range(len(target)):
            bits[at] = np.uint32(table[line, at]) << np.uint32(16)

    def copy(table, line, target):
        for at in range(len(target)):
            target[at] = table[line, at]

    return widen if table.dtype == types.uint16 else copy


@inner
def _read_in(tokens, embedding, pad_vectors, state):
    """Look up the input vectors # [count, hidden]; a negative token is the [PAD] of a place."""
    for row in range(len(tokens)):
        token = tokens[row]
        if token >= 0:
            _look_up(embedding, token, state[row])
        else:
            _look_up(pad_vectors, -1 - token, state[row])


@inner
def _angles(batches, lines, positions, frequencies, amplitude, cosine, sine):
    """Say how far each row's queries and keys are turned # [count, head_dim / 2]."""
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
def _add_units(like, read, layer, padded, room, state, part, parts):
    """Add to the [PAD] rows of the state what a layer's units make of ``read`` # [count, width], [count, hidden]."""
    (count, width), hidden, found, number = read.shape, state.shape[1], 0, layer[2]
    chosen, some = np.empty(count, np.int64), np.empty((count, width), np.float32)
    for row in range(count):
        if padded[row]:
            chosen[found] = row
            for at in range(width):
                some[found, at] = read[row, at]
            found += 1
    units, rectified = room.units[: found * number].reshape(found, number), np.empty((found, number), np.float32)
    multiply_part(like, some[:found], layer[0], units, np.int64(0), part, parts)
    meet(room.met.ctypes.data, parts)
    for row in range(found):
        for unit in range(number):
            rectified[row, unit] = max(units[row, unit], np.float32(0))
    multiply_part(like, rectified, layer[1], room.added[:found], np.int64(0), part, parts)
    panels = hidden // PANEL
    for row in range(found):
        for at in range(panels * part // parts * PANEL, panels * (part + 1) // parts * PANEL):  # what this part made
            state[chosen[row], at] += room.added[row, at]
    meet(room.met.ctypes.data, parts)


@inner
def _anchored(state, batches, lines, ancestry, padded):
    """Put behind each row its anchor, the nearest of its ancestors that is no [PAD] # [count, 2 * hidden]."""
    hidden = state.shape[1]
    both = np.empty((len(state), 2 * hidden), np.float32)
    for row in range(len(state)):
        batch, line = batches[row], lines[row]
        anchor = row
        while anchor > row - line and (padded[anchor] or not ancestry[batch, line, anchor - row + line]):
            anchor -= 1
        for at in range(hidden):
            both[row, at], both[row, at + hidden] = state[row, at], state[anchor, at]
    return both


@entry
def run(like, weights, pad_like, pads, asked, held, room, logits, part, parts):
    """Read rows, write their keys and values, and score some: one part of it, all others running at the same time.

    Args:
        like: see `multiply_part`.
        weights: of the model.
        pad_like: see `multiply_part`; of the adapter.
        pads: the adapter.
        asked: the rows.
        held: keys and values.
        room: that the parts share.
        logits: of the vocabulary and what fills its last panel up # [wanted, out]
        part: this one.
        parts: all of them.
    """
    state, heads, mixed, normed = room.state, room.heads, room.mixed, np.empty_like(room.state)
    count, batch, layers, width = len(asked.tokens), len(asked.positions), len(weights.products), heads.shape[2]
    flat_heads, flat_mixed = heads.reshape(count, heads.shape[1] * width), mixed.reshape(count, mixed.shape[1] * width)
    counter, put, add = room.met.ctypes.data, np.int64(0), np.int64(1)

    cosine, sine = np.empty((count, width // 2), np.float32), np.empty((count, width // 2), np.float32)
    extent = -(-asked.extent // PANEL) * PANEL
    seen, targets, window = np.empty((count, extent), np.bool_), np.empty(count, np.int64), np.int64(0)
    bounds, bends = np.empty((count, 2), np.int64), np.empty((count, 3), np.int64)
    paths = np.empty((count, asked.ancestry.shape[1]), np.int64)
    if part == 0:
        _read_in(asked.tokens, weights.embedding, pads.vectors, state)
    _angles(asked.batches, asked.lines, asked.positions, weights.frequencies, weights.amplitude, cosine, sine)
    for row in range(count):
        targets[row] = asked.slots[asked.batches[row], asked.lines[row]]
    meet(counter, parts)

    for layer in range(layers):
        keys = carray(pointer(held.keys[layer]), (batch, held.slots, weights.stored, width), np.float32)
        values = carray(pointer(held.values[layer]), (batch, held.slots, weights.stored, width), np.float32)
        _normalise(state, weights.norms[2 * layer], weights.epsilon, normed)
        multiply_part(like, normed, weights.products[layer, 0], flat_heads, put, part, parts)
        if weights.windows[layer] != window:
            window = weights.windows[layer]
            of_rows = (asked.batches, asked.lines, asked.slots, asked.positions, asked.ancestry)
            visible(*of_rows, window, seen, bounds, paths, bends)
        meet(counter, parts)
        bias, norm, turned = weights.first_bias[layer], weights.head_norms[layer], (weights.epsilon, cosine, sine)
        write(heads, bias, norm, *turned, keys, values, asked.batches, targets, mixed.shape[1], part, parts)
        meet(counter, parts)
        mix(heads, keys, values, asked.batches, seen, bounds, paths, bends, mixed, part, parts)
        meet(counter, parts)
        multiply_part(like, flat_mixed, weights.products[layer, 1], state, add, part, parts)
        meet(counter, parts)
        if weights.second_bias.shape[1] > 0:
            _add_bias(state, weights.second_bias[layer], part, parts)
            meet(counter, parts)
        _normalise(state, weights.norms[2 * layer + 1], weights.epsilon, normed)
        multiply_part(like, normed, weights.products[layer, 2], room.gates, put, part, parts)
        meet(counter, parts)
        _gate(room.gates, room.passed, part, parts)
        meet(counter, parts)
        multiply_part(like, room.passed, weights.products[layer, 3], state, add, part, parts)
        meet(counter, parts)
        if len(pads.padded) > 0 and pads.layers[layer, 2] > 0:
            _add_units(pad_like, normed, pads.layers[layer], pads.padded, room, state, part, parts)

    final = room.final
    if part == 0:
        _normalise(state, weights.norms[2 * layers], weights.epsilon, final)
    meet(counter, parts)
    if len(pads.padded) > 0:
        both = _anchored(final, asked.batches, asked.lines, asked.ancestry, pads.padded)
        meet(counter, parts)
        _add_units(pad_like, both, pads.layers[layers], pads.padded, room, final, part, parts)
    chosen = final
    if len(asked.wanted) < count:
        chosen = np.empty((len(asked.wanted), final.shape[1]), np.float32)
        for place in range(len(asked.wanted)):
            for at in range(final.shape[1]):
                chosen[place, at] = final[asked.wanted[place], at]
    multiply_part(like, chosen, weights.vocabulary, logits, put, part, parts)
