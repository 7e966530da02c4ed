"""Random numbers that depend only on a token and its position in the answer, not on the order of drawing.

Each position has a key, drawn by its request. A token's number is a hash of key and token, computed on the device
of the logits. So a model and its draft model sample with the same random numbers.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

_MIX = (0x7FEB352D, 0x2C1B3C6D, 0x297A2D39)  # odd, with many bits set


def exponential(keys: Tensor, count: int) -> Tensor:
    """Draw one number for each key and token from the exponential distribution with mean 1.

    The arithmetic is on integers, so all devices give the same numbers, up to the rounding of one logarithm.

    Args:
        keys: two 32-bit integers for each row # [rows, 2] int32
        count: number of tokens.

    Returns:
        # [rows, count] float32, above 0
    """
    state = token_numbers(count, keys.device) ^ keys[:, :1]
    state.mul_(keys[:, 1:] | 1)
    state.bitwise_xor_(state >> 16)
    state.mul_(_MIX[0])
    state.bitwise_xor_(state >> 15)
    uniform = state.bitwise_and_(0x7FFFFFFF).float().add_(0.5).mul_(-(2.0**-31))
    uniform.clamp_(min=2.0**-24 - 1)  # rounded to -1, its logarithm would be infinite
    return uniform.log1p_().neg_()


@lru_cache(maxsize=8)
def token_numbers(count: int, device: torch.device) -> Tensor:
    """Return a well-mixed 32-bit integer for each token # [count] int32."""
    state = torch.arange(1, count + 1, dtype=torch.int32, device=device)
    for factor in _MIX:
        state = (state ^ (state >> 16)) * factor
    return state ^ (state >> 15)
