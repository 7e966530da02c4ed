"""Products of rows with weights, the weights laid out as the processor reads them where it can.

The fewer rows, the more of a product is reading its weights, and the more the layout saves.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor
from torch.nn.functional import linear, relu

__all__ = ["added_product", "can_pack", "packed", "product"]

# For each number of rows torch and oneDNN keep code and room of their own, by default 1,024 times: half a GiB beside
# the pocket model, which prompts of all lengths fill little by little. They read the limit when they first multiply.
for _name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "128")


def can_pack(weight: Tensor) -> bool:
    """Whether `packed` takes it: bfloat16 on a CPU that multiplies it."""
    if weight.dtype != torch.bfloat16 or weight.device.type != "cpu":
        return False
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def packed(weight: Tensor) -> Tensor:
    """Lay a weight out; no gradient goes through it any more."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)  # type: ignore[no-any-return]


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, *, rectified: bool = False) -> Tensor:
    """Multiply rows # [..., inner] by a weight # [outer, inner], packed or not -> [..., outer]."""
    if weight.is_mkldnn:
        after = "relu" if rectified else "none"
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, after, [], "")  # type: ignore[no-any-return]
    multiplied = linear(rows, weight, bias)
    return relu(multiplied) if rectified else multiplied


def added_product(rows: Tensor, weight: Tensor, other: Tensor) -> Tensor:
    """`product` without a bias, added to another tensor # [..., outer]."""
    if weight.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise.binary(rows, other, weight, None, "add")  # type: ignore[no-any-return]
    return other + linear(rows, weight)
