"""[PAD] adapters in the compiled forward, where blank rows are [PAD]s."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from stretto.local_engine.kernels import blanks
from stretto.local_engine.kernels.compiling.jit import inner
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import multiply_part
from stretto.local_engine.kernels.vectors import barrier

_ROWS, _UNITS = 3, PANEL  # of the trial


class CompiledPads(NamedTuple):
    """An adapter, a flag for each [PAD] row, and buffers shared by the threads of a forward.

    Attributes:
        like: see `multiply_part`; for the adapter's matrices.
        vectors: input vector of each [PAD] # [pads, hidden]
        layers: addresses of the matrices into and out of the units, and the number of units; the adapter's last layer
            comes last # [layers + 1, 3]
        padded: whether each row is a [PAD] # [count]
        added: output of the units # [count, hidden]
        units: buffer of the units # [count * units]
    """

    like: NDArray[np.generic]
    vectors: NDArray[np.float32]
    layers: NDArray[np.int64]
    padded: NDArray[np.bool_]
    added: NDArray[np.float32]
    units: NDArray[np.float32]


def _is_ours(adapter: Any) -> bool:
    return isinstance(adapter, types.NamedTuple) and adapter.instance_class is CompiledPads


@overload(blanks.read_in)
def _read_in(adapter, token, target):  # noqa: ARG001 - numba calls all of these by name
    if _is_ours(adapter):
        return lambda adapter, token, target: _copy(adapter.vectors[-1 - token], target)
    return None


@overload(blanks.behind_layer)
def _behind_layer(adapter, layer, read, state, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, layer, read, state, counter, part, parts: _add_units(
            adapter, adapter.layers[layer], read, state, counter, part, parts
        )
    return None


@overload(blanks.behind_norm)
def _behind_norm(adapter, inputs, state, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, inputs, state, counter, part, parts: _finish(  # noqa: PLW0108 - numba takes functions
            adapter, inputs, state, counter, part, parts
        )
    return None


@overload(blanks.multiply)
def _multiply(adapter, like, layer, place, rows, weight, result, add, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, like, layer, place, rows, weight, result, add, counter, part, parts: multiply_part(  # noqa: ARG005
            like, rows, weight, result, add, part, parts
        )
    return None


@inner
def _copy(source, target):
    for at in range(len(target)):
        target[at] = source[at]


@inner
def _add_units(pads, layer, read, state, counter, part, parts):
    """Add a layer's units for ``read`` # [count, width] to the [PAD] rows of the state # [count, hidden]."""
    (count, width), hidden, found, number = read.shape, state.shape[1], 0, layer[2]
    if number == 0:
        return
    chosen, some = np.empty(count, np.int64), np.empty((count, width), np.float32)
    for row in range(count):
        if pads.padded[row]:
            chosen[found] = row
            for at in range(width):
                some[found, at] = read[row, at]
            found += 1
    units, rectified = pads.units[: found * number].reshape(found, number), np.empty((found, number), np.float32)
    multiply_part(pads.like, some[:found], layer[0], units, np.int64(0), part, parts)
    barrier(counter, parts)
    for row in range(found):
        for unit in range(number):
            rectified[row, unit] = max(units[row, unit], np.float32(0))
    multiply_part(pads.like, rectified, layer[1], pads.added[:found], np.int64(0), part, parts)
    panels = hidden // PANEL
    for row in range(found):
        for at in range(panels * part // parts * PANEL, panels * (part + 1) // parts * PANEL):  # of this part
            state[chosen[row], at] += pads.added[row, at]
    barrier(counter, parts)


@inner
def _finish(pads, inputs, state, counter, part, parts):
    """Add the units of the last layer, which read the states of a row and of its anchor."""
    both = _anchored(state, inputs.batches, inputs.lines, inputs.ancestry, pads.padded)
    barrier(counter, parts)
    _add_units(pads, pads.layers[-1], both, state, counter, part, parts)


@inner
def _anchored(state, batches, lines, ancestry, padded):
    """Append to each row the state of its anchor, the nearest ancestor that is not a [PAD] # [count, 2 * hidden]."""
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


def trial(weights: str, pads: str) -> None:
    """Run a layer on a tree with a [PAD], with an adapter of ones. Raises RuntimeError for a wrong result.

    Args:
        weights: kind of the model's weights.
        pads: kind of the adapter's weights.
    """
    from stretto.local_engine.kernels import trials  # noqa: PLC0415 - only the compiler runs this

    hidden = trials.HIDDEN
    units_in, units_out, last = (
        trials.ones(pads, *size) for size in ((_UNITS, hidden), (hidden, _UNITS), (_UNITS, 2 * hidden))
    )
    table = [[first.ctypes.data, units_out.ctypes.data, _UNITS] for first in (units_in, last)]
    trials.forward(
        weights,
        CompiledPads(
            like=trials.KINDS[pads][0],
            vectors=np.ones((1, hidden), np.float32),
            layers=np.array(table),
            padded=np.array([0, 0, 1], bool),
            added=np.zeros((_ROWS, hidden), np.float32),
            units=np.zeros(_ROWS * _UNITS, np.float32),
        ),
        blank=True,
    )
