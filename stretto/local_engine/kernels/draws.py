"""Draws one token per row, as `stretto.local_engine.choosing.sampling` does in torch.

The token drawn is the one with the largest quotient p / x, where p is its probability and x its exponentially
distributed random number (Maddison et al., arXiv:1411.0030). x is -log(1 - u) for a number u between 0 and 1, and never
less than u. So p / u is an upper bound, and the logarithm is computed only for tokens whose bound can be the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # numba does not mark it as exported
from numpy.typing import NDArray

from stretto.local_engine.kernels.compiling.jit import entry, inner
from stretto.local_engine.kernels.vectors import exp, pointer

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 64
_FACTOR = np.int32(0x7FEB352D)
_CLOSEST = np.float32(1 - 2.0**-24)
_COLDEST = 1e-30  # a float32; at this temperature only the most probable token is drawn


def draw(
    logits: Tensor, temperatures: Sequence[float], keys: Sequence[tuple[int, int]], tokens: NDArray[np.int32]
) -> list[int]:
    """Draw one token from the softmax of each row, without top-k, top-p or min-p.

    Args:
        logits: float32 in the processor's memory # [rows, vocabulary]
        temperatures: above 0 # [rows]
        keys: of the positions; see `stretto.local_engine.choosing.noise` # [rows]
        tokens: a well mixed number for each token, see `noise.token_numbers` # [vocabulary]
    """
    step, column_step = logits.stride()
    if column_step != 1:
        raise ValueError("the logits of a row are not contiguous")
    rows = len(keys)
    if not rows == len(temperatures) == logits.shape[0] or logits.shape[1] != len(tokens):
        raise ValueError(f"{rows} keys and {len(tokens)} tokens do not fit logits of the shape {logits.shape}")
    found, scales = np.empty(rows, np.int64), np.array(temperatures).clip(_COLDEST).astype(np.float32)
    drawn(logits.data_ptr(), 4 * step, scales, np.array(keys, np.int32).reshape(-1, 2), tokens, found)
    tokens_drawn: list[int] = found.tolist()
    return tokens_drawn


@inner
def _largest(line):
    """Return the largest number of a line, without its index, so that it can be vectorised."""
    largest = np.full(_BLOCK, -np.inf, np.float32)
    whole = len(line) // _BLOCK * _BLOCK
    for start in range(0, whole, _BLOCK):
        for at in range(_BLOCK):
            largest[at] = max(largest[at], line[start + at])
    most = np.float32(-np.inf)
    for at in range(_BLOCK):
        most = max(most, largest[at])
    for at in range(whole, len(line)):
        most = max(most, line[at])
    return most


@inner
def _weigh(line, most, temperature, key, tokens, uniform, bounds):
    """Compute each token's random number u between 0 and 1, and p / u, the upper bound of its quotient."""
    first, second = key[0], np.int32(key[1] | 1)
    for token in range(len(line)):
        state = np.int32((tokens[token] ^ first) * second)
        state = np.int32((state ^ (state >> np.int32(16))) * _FACTOR)
        state = (state ^ (state >> np.int32(15))) & np.int32(0x7FFFFFFF)
        number = min((np.float32(state) + np.float32(0.5)) * np.float32(2.0**-31), _CLOSEST)
        uniform[token] = number
        below = line[token] - most if line[token] < most else np.float32(0)  # infinity minus infinity would be NaN
        bounds[token] = exp(below / temperature) / number


@inner
def _winner(uniform, bounds, highest):
    """Return the token with the largest quotient, the first one on a tie."""
    best, found = np.float32(-1), 0
    for token in range(len(bounds)):  # a likely winner first, so that few others have to be compared
        if bounds[token] == highest:
            best, found = _multiple(uniform[token], bounds[token]), token
            break
    start = 0
    while start < len(bounds):
        block, some = bounds[start : start + _BLOCK], False
        for at in range(len(block)):
            some |= block[at] >= best
        if some:
            for at in range(len(block)):
                if block[at] >= best:
                    own = _multiple(uniform[start + at], block[at])
                    if own > best or (own == best and start + at < found):
                        best, found = own, start + at
        start += _BLOCK
    return found


@inner
def _multiple(number, bound):
    return bound * number / -math.log1p(-number)


@entry
def drawn(address, step, temperatures, keys, tokens, found):
    """See `draw`; ``step`` is bytes between rows."""
    vocabulary = len(tokens)
    uniform, bounds = np.empty(vocabulary, np.float32), np.empty(vocabulary, np.float32)
    for row in range(len(found)):
        line = carray(pointer(address + row * step), (vocabulary,), np.float32)
        _weigh(line, _largest(line), temperatures[row], keys[row], tokens, uniform, bounds)
        found[row] = _winner(uniform, bounds, _largest(bounds))
