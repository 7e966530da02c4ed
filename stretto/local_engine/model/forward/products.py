"""Matrix products, with weights in the layout that the processor reads fastest.

The fewer rows a product has, the larger the share of reading its weights, and the more the layout matters: ours
(`stretto.local_engine.kernels.panels`), or torch's own for bfloat16.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor
from torch.nn.functional import linear, relu

from stretto.local_engine.kernels.panels import Layout, Panels, layout_for

__all__ = ["Layout", "Weight", "added_product", "layout_for", "packed", "product", "unpacked"]

# torch and oneDNN cache code and memory for each number of rows, by default for 1,024 of them: half a GiB for the
# pocket model, once prompts of all lengths have come. They read these limits at the first product.
for _name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "128")

Weight = Tensor | Panels


def packed(weight: Weight, layout: Layout | None) -> Weight:
    """Pack a weight: in ``layout``, else as torch does for bfloat16; unchanged if neither is faster.

    No gradient flows through a packed weight.
    """
    if isinstance(weight, Panels):
        return weight
    if layout is not None:
        return Panels.of(weight, layout)
    if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and _multiplies_bfloat16():
        return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)  # type: ignore[no-any-return]
    return weight


def unpacked(weight: Weight, dtype: torch.dtype) -> Tensor:
    """Return the weight before it was packed, bit for bit: a layout changes no number."""
    if isinstance(weight, Panels):
        return weight.dense(dtype)
    return weight.to_dense() if weight.is_mkldnn else weight


def product(rows: Tensor, weight: Weight, bias: Tensor | None = None, *, rectified: bool = False) -> Tensor:
    """Multiply rows # [..., inner] by a weight # [outer, inner], packed or not -> [..., outer]."""
    if isinstance(weight, Panels):
        multiplied = weight(rows) if bias is None else weight(rows) + bias
    elif weight.is_mkldnn:
        after = "relu" if rectified else "none"
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, after, [], "")  # type: ignore[no-any-return]
    else:
        multiplied = linear(rows, weight, bias)
    return relu(multiplied) if rectified else multiplied


def added_product(rows: Tensor, weight: Weight, other: Tensor) -> Tensor:
    """Add `product` without a bias to another tensor # [..., outer]."""
    if not isinstance(weight, Panels) and weight.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise.binary(rows, other, weight, None, "add")  # type: ignore[no-any-return]
    return other + product(rows, weight)


def _multiplies_bfloat16() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
