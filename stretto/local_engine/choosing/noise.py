"""Random numbers that belong to a place of an answer and a token: the same for whoever asks, in whatever order.

Each place has a key, drawn by its request; the number of a token there is a hash of both, computed where the logits
are. So a model and the smaller one that drafts for it can sample with the same chance, without a word between them.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["exponential", "token_numbers"]

_MIX = (0x7FEB352D, 0x2C1B3C6D, 0x297A2D39)  # odd, and with bits in many places


def exponential(keys: Tensor, count: int) -> Tensor:
    """Draw from the exponential distribution with mean 1, a number for each key and token.

    Integers that wrap around, so every device has the same numbers, but for the rounding of one logarithm.

    Args:
        keys: two numbers of 32 bits for each row # [rows, 2] int32
        count: tokens.

    Returns:
        # [rows, count] float32, above 0
    """
    state = token_numbers(count, keys.device) ^ keys[:, :1]
    state.mul_(keys[:, 1:] | 1)
    state.bitwise_xor_(state >> 16)
    state.mul_(_MIX[0])
    state.bitwise_xor_(state >> 15)
    uniform = state.bitwise_and_(0x7FFFFFFF).float().add_(0.5).mul_(-(2.0**-31))
    uniform.clamp_(min=2.0**-24 - 1)  # rounded to -1, it would be an infinite wait
    return uniform.log1p_().neg_()


@lru_cache(maxsize=8)
def token_numbers(count: int, device: torch.device) -> Tensor:
    """Return a number of 32 bits for each token, as unlike its neighbours' as possible # [count] int32."""
    state = torch.arange(1, count + 1, dtype=torch.int32, device=device)
    for factor in _MIX:
        state = (state ^ (state >> 16)) * factor
    return state ^ (state >> 15)
