"""Attention on a GPU by a kernel that needs no plan for each shape.

In half precision, torch chooses cuDNN's attention on an H100, which makes a plan for each new shape: 4 to 20 ms on the
host. A text grows and drafts differ, so nearly every step has a new shape. Switching off cuDNN's attention would change
a setting of the whole process. So the memory-efficient kernel (Rabe and Staats, arXiv:2112.05682) is called by name. In
float32 and float64 torch never chooses cuDNN, so torch chooses the kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

HALF = (torch.bfloat16, torch.float16)
"""Types for which torch may choose cuDNN's attention."""

_ALIGNMENT = 8  # numbers that the kernel reads at once
_TOLERANCE = 0.05
_log = logging.getLogger(__name__)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attend like torch's `scaled_dot_product_attention`.

    Args:
        queries: # [batch, heads, rows, head_dim]
        keys: # [batch, heads, slots, head_dim]
        values: like the keys.
        mask: added to the scores; it can be broadcast to # [batch, heads, rows, slots]
        causal: row i sees slots 0 to i; not together with a mask.
        scale: of the scores; by default 1 / sqrt(head_dim).

    Returns:
        # [batch, heads, rows, head_dim]
    """
    if queries.dtype not in HALF or not _runs(queries.device, queries.dtype, queries.shape[-1], values.shape[-1]):
        return scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal, scale=scale)
    if mask is not None:
        mask = aligned(mask).expand(*queries.shape[:-1], keys.shape[-2])
    return _kernel(queries, keys, values, mask, causal=causal, scale=scale)


def aligned(mask: Tensor) -> Tensor:
    """Align each line of a mask as the kernel requires # [..., slots]."""
    if mask.stride(-1) == 1 and not any(stride % _ALIGNMENT for stride in mask.stride()[:-1]):
        return mask
    slots = mask.shape[-1]
    return pad(mask, (0, -slots % _ALIGNMENT))[..., :slots]


def _kernel(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None
) -> Tensor:
    operation: Callable[..., tuple[Tensor, ...]] = torch.ops.aten._scaled_dot_product_efficient_attention
    learned_from = torch.is_grad_enabled() and queries.requires_grad  # backward needs the sums of the exponentials
    return operation(queries, keys, values, mask, learned_from, is_causal=causal, scale=scale)[0]


@cache
def _runs(device: torch.device, dtype: torch.dtype, width: int, value_width: int) -> bool:
    """Return whether the kernel runs here and gives the right result; tested once."""
    if device.type != "cuda" or width % _ALIGNMENT or value_width % _ALIGNMENT:
        return False
    shapes = ((1, 2, 3, width), (1, 2, 21, width), (1, 2, 21, value_width))
    chance = torch.Generator().manual_seed(1)
    queries, keys, values = (torch.randn(shape, generator=chance).to(device, dtype) for shape in shapes)
    mask = aligned(torch.zeros(1, 1, 3, 21, dtype=dtype, device=device))
    mask[..., 1, 5:9] = -torch.inf
    try:
        found = _kernel(queries, keys, values, mask.expand(1, 2, 3, 21), causal=False, scale=None).float()
    except RuntimeError as error:
        _log.warning("torch chooses how attention is computed on %s: %s", device, error)
        return False
    weights = (queries.float() @ keys.float().mT / width**0.5 + mask.float()).softmax(-1)
    gap = float((found - weights @ values.float()).abs().max())
    if gap < _TOLERANCE:
        return True
    _log.warning(
        "torch chooses how attention is computed on %s: memory-efficient attention is off by %.2g", device, gap
    )
    return False
