"""Finds the most probable tokens of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # numba does not mark it as exported
from numpy.typing import NDArray

from stretto.local_engine.kernels.compiling.jit import entry, inner, summing
from stretto.local_engine.kernels.vectors import exp, pointer

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 64


def best(logits: Tensor, rows: Sequence[int], most: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the most probable tokens of some rows, in descending order, and their probabilities.

    Args:
        logits: float32 in the processor's memory # [all rows, vocabulary]
        rows: indices of rows.
        most: number of tokens per row.

    Returns:
        ids and probabilities # [rows, most] each
    """
    if not 1 <= most <= logits.shape[1]:
        raise ValueError(f"{most} tokens of {logits.shape[1]} cannot be named")
    ids, probabilities = np.empty((len(rows), most), np.int64), np.empty((len(rows), most), np.float32)
    chosen, (step, column_step) = np.array(rows, np.int64), logits.stride()
    if column_step != 1:
        raise ValueError("the logits of a row are not contiguous")
    ranked(logits.data_ptr(), 4 * step, logits.shape[1], chosen, ids, probabilities)
    return ids, probabilities


@inner
def _any_above(line, least):
    """Return whether any number is above ``least``. Comparing all as vectors is faster than stopping at the first."""
    found = False
    for at in range(len(line)):
        found |= line[at] > least
    return found


@inner
def _rank(line, ids, values):
    """Find the largest numbers of a line, in order, and their indices."""
    filled, least, start = 0, np.float32(-np.inf), 0
    while start < len(line):
        block = line[start : start + _BLOCK]
        if filled < len(ids) or _any_above(block, least):
            for at in range(len(block)):
                if filled < len(ids) or block[at] > least:
                    filled = min(filled + 1, len(ids))
                    _insert(start + at, block[at], ids[:filled], values[:filled])
                    least = values[filled - 1]
        start += _BLOCK


@inner
def _insert(token, score, ids, values):
    """Insert a number that is larger than the last one."""
    at = len(ids) - 1
    while at > 0 and values[at - 1] < score:
        ids[at], values[at] = ids[at - 1], values[at - 1]
        at -= 1
    ids[at], values[at] = token, score


@inner
def _raise(line, most, raised):
    """Compute exp of each number minus the largest."""
    for token in range(len(line)):
        raised[token] = exp(line[token] - most)


@summing
def _sum(numbers):
    total = np.float32(0)
    for at in range(len(numbers)):
        total += numbers[at]
    return total


@entry
def ranked(address, step, vocabulary, rows, ids, probabilities):
    """See `best`; ``step`` is bytes between rows."""
    raised = np.empty(vocabulary, np.float32)
    for place in range(len(rows)):
        line = carray(pointer(address + rows[place] * step), (vocabulary,), np.float32)
        values = probabilities[place]
        _rank(line, ids[place], values)
        _raise(line, values[0], raised)
        share = np.float32(1) / _sum(raised)
        for at in range(len(values)):
            values[at] = raised[ids[place, at]] * share
