"""Low-rank changes of products in a compiled forward: each row has those of its own adapter, or none.

A row of any adapter is computed with the same bits, whatever other rows there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]  # numba does not mark the first as exported
from numba.extending import overload
from numpy.typing import NDArray

from stretto.local_engine.kernels import blanks
from stretto.local_engine.kernels.compiling.jit import inner, summing
from stretto.local_engine.kernels.tiles import multiply_part
from stretto.local_engine.kernels.vectors import barrier, pointer

_ROWS, _RANK = 3, 2  # of the trial


class CompiledChanges(NamedTuple):
    """The changes that adapters make to products, the adapter of each row, and buffers shared by a forward's threads.

    Attributes:
        table: the changes of each adapter, layer and product as a range of lines of ``changes``: the first, and one
            past the last # [adapters, layers, 4, 2]
        changes: rank; first output and one past the last; addresses of the matrix into the rank # [rank, inner], of the
            one out of it # [rank, outputs] and of the outputs' factors # [outputs], or 0 # [changes, 6]
        chosen: the adapter of each row, or -1 # [count]
        narrow: rows in the ranks of all changes of a product # [count, ranks]
        made: a product that is added to something # [count, hidden]
    """

    table: NDArray[np.int64]
    changes: NDArray[np.int64]
    chosen: NDArray[np.int64]
    narrow: NDArray[np.float32]
    made: NDArray[np.float32]


def _is_ours(adapter: Any) -> bool:
    return isinstance(adapter, types.NamedTuple) and adapter.instance_class is CompiledChanges


@overload(blanks.read_in)
def _read_in(adapter, token, target):  # noqa: ARG001 - numba calls all of these by name
    return (lambda adapter, token, target: None) if _is_ours(adapter) else None  # noqa: ARG005


@overload(blanks.behind_layer)
def _behind_layer(adapter, layer, read, state, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, layer, read, state, counter, part, parts: None  # noqa: ARG005
    return None


@overload(blanks.behind_norm)
def _behind_norm(adapter, inputs, state, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, inputs, state, counter, part, parts: None  # noqa: ARG005
    return None


@overload(blanks.multiply)
def _multiply(adapter, like, layer, place, rows, weight, result, add, counter, part, parts):  # noqa: ARG001
    if _is_ours(adapter):
        return lambda adapter, like, layer, place, rows, weight, result, add, counter, part, parts: _changed(  # noqa: PLW0108 - numba takes functions
            adapter, like, layer, place, rows, weight, result, add, counter, part, parts
        )
    return None


@summing
def _dot(left, right):
    total = np.float32(0)
    for at in range(len(left)):
        total += left[at] * right[at]
    return total


@inner
def _add_outer(narrow, out, target, first):
    """Add the product of the narrow row for these outputs."""
    for line in range(len(narrow)):
        number, own = narrow[line], out[line, first : first + len(target)]
        for at in range(len(target)):
            target[at] += number * own[at]


@inner
def _changed(changes, like, layer, place, rows, weight, result, add, counter, part, parts):
    """See `stretto.local_engine.kernels.blanks.multiply`: the parts share the rank of each row, then its outputs."""
    count, inner_size = rows.shape
    made = changes.made if add else result
    multiply_part(like, rows, weight, made, np.int64(0), part, parts)
    for row in range(count):
        adapter, begin = changes.chosen[row], 0
        if adapter < 0:
            continue
        for number in range(changes.table[adapter, layer, place, 0], changes.table[adapter, layer, place, 1]):
            rank = changes.changes[number, 0]
            into = carray(pointer(changes.changes[number, 3]), (rank, inner_size), np.float32)
            for line in range(rank * part // parts, rank * (part + 1) // parts):
                changes.narrow[row, begin + line] = _dot(into[line], rows[row])
            begin += rank
    barrier(counter, parts)
    for row in range(count):
        adapter, begin = changes.chosen[row], 0
        if adapter >= 0:
            for number in range(changes.table[adapter, layer, place, 0], changes.table[adapter, layer, place, 1]):
                rank, start = changes.changes[number, 0], changes.changes[number, 1]
                outer = changes.changes[number, 2] - start
                out = carray(pointer(changes.changes[number, 4]), (rank, outer), np.float32)
                first, last = outer * part // parts, outer * (part + 1) // parts
                own = made[row, start + first : start + last]
                _add_outer(changes.narrow[row, begin : begin + rank], out, own, first)
                if changes.changes[number, 5] != 0:
                    lengths = carray(pointer(changes.changes[number, 5]), outer, np.float32)
                    for at in range(len(own)):
                        own[at] *= lengths[first + at]
                begin += rank
    if add:
        barrier(counter, parts)  # a product may be divided differently than its changes
        width = result.shape[1]
        for row in range(count):
            for at in range(width * part // parts, width * (part + 1) // parts):
                result[row, at] += made[row, at]


def trial(weights: str) -> None:
    """Run a layer whose outputs all grow alike in the second row. Raises RuntimeError for a wrong result.

    ``weights``: their kind.
    """
    from stretto.local_engine.kernels import trials  # noqa: PLC0415 - only the compiler runs it

    hidden = trials.HIDDEN
    ones = np.ones(_RANK * 4 * hidden, np.float32)
    line = [_RANK, 0, hidden, *[ones.ctypes.data] * 3]
    table = [[[[number, number + 1] for number in (0, 0, 1, 0)]]]
    chosen = np.array([-1, 0, -1])
    narrow, made = np.zeros((_ROWS, _RANK), np.float32), np.zeros((_ROWS, hidden), np.float32)
    changes = np.array([line, [_RANK, 0, 2 * hidden, *line[3:]]])
    trials.forward(weights, CompiledChanges(np.array(table), changes, chosen, narrow, made))
