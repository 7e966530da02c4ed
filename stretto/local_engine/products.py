"""Products of rows with weights, the weights laid out as the processor reads them where it can.

The fewer rows, the more of a product is reading its weights, and the more the layout saves. Most models are published
in half precision. Where such a one is run in float32, on a CPU that cannot multiply bfloat16, its weights are held as
they were published, and become float32 again inside the product: half the memory to read, the same numbers.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, relu

__all__ = ["Weight", "added_product", "packed", "product"]

# For each number of rows torch and oneDNN keep code and room of their own, by default 1,024 times: half a GiB beside
# the pocket model, which prompts of all lengths fill little by little. They read the limit when they first multiply.
for _name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "128")

_LARGEST = 16  # power of two that the numbers of a halved weight are brought below, as far as float16 goes
_SMALLEST = 2.0**-25  # half the distance of the smallest numbers of float16


@dataclass(frozen=True, slots=True)
class Halved:
    """A float32 weight in float16.

    Times a power of two its numbers fit: those of bfloat16 above 2^-32 of the largest exactly, and those below are off
    by less than 2^-40 of it, where float32 rounds the sum they go into at 2^-24.
    """

    matrix: torch.ScriptObject  # as torch's quantized products take it
    scale: Tensor  # of the rows, such that products come out right; a number would be made a tensor each time # []

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply rows # [..., inner] -> [..., outer]."""
        return torch.ops.quantized.linear_dynamic_fp16(rows * self.scale, self.matrix)  # type: ignore[no-any-return]

    def dense(self) -> Tensor:
        """The weight as it was # [outer, inner]."""
        matrix: Tensor = torch.ops.quantized.linear_unpack_fp16(self.matrix)[0]
        return matrix.float() * self.scale


Weight = Tensor | Halved


def packed(weight: Weight) -> Weight:
    """Lay a weight out, or give it back where nothing is faster; no gradient goes through it any more."""
    if isinstance(weight, Halved):
        return weight
    if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and _multiplies_bfloat16():
        return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)  # type: ignore[no-any-return]
    if weight.device.type == "cpu" and weight.dtype == torch.float32 and _multiplies_halved():
        return _halved(weight) or weight
    return weight


def product(rows: Tensor, weight: Weight, bias: Tensor | None = None, *, rectified: bool = False) -> Tensor:
    """Multiply rows # [..., inner] by a weight # [outer, inner], packed or not -> [..., outer]."""
    if isinstance(weight, Halved):
        multiplied = weight(rows) if bias is None else weight(rows) + bias
    elif weight.is_mkldnn:
        after = "relu" if rectified else "none"
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, after, [], "")  # type: ignore[no-any-return]
    else:
        multiplied = linear(rows, weight, bias)
    return relu(multiplied) if rectified else multiplied


def added_product(rows: Tensor, weight: Weight, other: Tensor) -> Tensor:
    """`product` without a bias, added to another tensor # [..., outer]."""
    if not isinstance(weight, Halved) and weight.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise.binary(rows, other, weight, None, "add")  # type: ignore[no-any-return]
    return other + product(rows, weight)


def _multiplies_bfloat16() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _multiplies_halved() -> bool:
    """Whether torch's engine is the one for x86 processors with AVX2: the others have no such product."""
    return torch.backends.quantized.engine in {"x86", "fbgemm"}


def _halved(weight: Tensor) -> Halved | None:
    low, high = map(float, weight.aminmax())
    largest = max(-low, high)
    if not 0 < largest < torch.inf:
        return None
    exponent = _LARGEST - math.frexp(largest)[1]
    scaled = weight * 2.0**exponent
    halved = scaled.half()
    low, high = map(float, scaled.sub_(halved).aminmax())
    if not max(-low, high) <= _SMALLEST:  # nor if it is no number
        return None
    matrix = torch.ops.quantized.linear_prepack_fp16(halved.float(), None)
    return Halved(matrix, torch.tensor(2.0**-exponent))
