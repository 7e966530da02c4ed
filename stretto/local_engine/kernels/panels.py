"""Weights in panels: laid out so that a product reads them from beginning to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stretto.local_engine.kernels.arena import Arena
from stretto.local_engine.kernels.sizes import PAIRS, PANEL, PANELS
from stretto.local_engine.kernels.thread_team import share

_LIKE: dict[torch.dtype, NDArray[np.generic]] = {
    torch.bfloat16: np.empty(0, np.uint16),
    torch.float16: np.empty(0, np.int16),
    torch.float32: np.empty(0, np.float32),
}
"""The dtype tag for `multiply`, by the storage type of the weights: NumPy has no bfloat16."""

_PAIRED = np.empty(0, np.uint32)
_PIECE = 2**20  # numbers that are checked together


def narrowest(weights: Sequence[Tensor]) -> torch.dtype:
    """Return the narrowest type that stores these weights without loss."""
    for dtype in (torch.bfloat16, torch.float16):
        if all(_fits(weight, dtype) for weight in weights):
            return dtype
    return torch.float32


def _fits(weight: Tensor, dtype: torch.dtype) -> bool:
    """Return whether a type stores a weight without loss; in pieces, because the largest is a good part of a model."""
    pieces = torch.split(weight, max(1, _PIECE // weight.shape[-1]))
    return all(torch.equal(piece.to(dtype).to(weight.dtype), piece) for piece in pieces)


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory layout of a model's weights.

    Attributes:
        dtype: in which they are stored.
        paired: whether inputs are stored in pairs, and rows rounded to bfloat16 before the product: half the operations
            on processors that multiply pairs. Only for bfloat16 and an even number of inputs.
        arena: their memory.
    """

    dtype: torch.dtype
    paired: bool = False
    arena: Arena | None = None


def held_as(weights: Sequence[Tensor]) -> torch.dtype:
    """Return the storage type of these weights, all of one type: for float32 the narrowest one without loss."""
    own = weights[0].dtype
    return narrowest(weights) if own == torch.float32 else own


def pairs(weights: Sequence[Tensor]) -> bool:
    """Return whether these weights can be stored in pairs; see `Layout`."""
    return weights[0].dtype == torch.bfloat16 and not any(each.shape[1] % 2 for each in weights)


def kind_of(weights: Sequence[Tensor], dtype: torch.dtype) -> str:
    """Return the kind of compiled products for weights stored in a type; see `trials.KINDS`."""
    return "pairs" if pairs(weights) else str(dtype).removeprefix("torch.")


def layout_for(weights: Sequence[Tensor], *, dtype: torch.dtype | None = None, paired: bool | None = None) -> Layout:
    """Return the layout for weights of one type, with an arena for all of them if there is memory for it.

    Weights of float32 are stored in the narrowest type without loss. Products are computed in float32, except those of
    bfloat16 weights on a processor that multiplies bfloat16.

    Args:
        weights: all of them.
        dtype: from `held_as`, if known.
        paired: whether to store them in pairs if possible; by default, if the processor multiplies pairs.
    """
    dtype = dtype or held_as(weights)
    if paired is None and pairs(weights):
        from stretto.local_engine.kernels.vectors import PAIRED  # noqa: PLC0415 - it imports numba

        paired = PAIRED
    filled = [-(-len(weight) // PANEL) * PANEL * weight.shape[1] for weight in weights]
    try:
        arena = Arena(sum(filled) * dtype.itemsize, len(filled))
    except OSError:  # not enough memory in one piece
        arena = None
    return Layout(dtype, bool(paired) and pairs(weights), arena)


@dataclass(frozen=True, slots=True)
class Panels:
    """A weight # [outer, inner] laid out so that a product reads it from beginning to end.

    A panel contains the numbers of as many outputs as fit into a register, input by input or pair by pair. Most models
    are published in half precision. When run in float32, such weights are read as published and widened in the product:
    half the memory to read, the same numbers.
    """

    held: Tensor  # [outer / PANEL, inner, PANEL], or [outer / PANEL, inner / 2, PANEL, 2]
    outer: int

    @classmethod
    def of(cls, weight: Tensor, layout: Layout) -> Panels:
        """Lay out a weight, whose numbers must be representable in the layout's type."""
        (outer, inner), dtype = weight.shape, layout.dtype
        filled = weight.to(dtype)
        if outer % PANEL:  # it would be a copy anyway
            filled = pad(filled, (0, 0, 0, -outer % PANEL))
        panels = filled.view(-1, PANEL, inner // 2, 2) if layout.paired else filled.view(-1, PANEL, inner)
        panels = panels.transpose(1, 2)
        arena, shape = layout.arena, panels.shape
        held = torch.empty(shape, dtype=dtype) if arena is None else arena.allocate(shape, dtype)
        return cls(held.copy_(panels), outer)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply rows of float32 # [..., inner] -> [..., outer]."""
        if rows.dtype != torch.float32:
            raise TypeError(f"weights in panels are multiplied with float32, not with {rows.dtype}")
        flat = rows.reshape(-1, rows.shape[-1]).contiguous()
        result = flat.new_empty(len(flat), self.filled)
        source, target = flat.numpy(), result.numpy()
        multiply, amount = _multiply(), len(flat) * self.size
        share(amount, lambda part, parts: multiply(self.like_alone, source, self.address, target, part, parts))
        return result[:, : self.outer].view(*rows.shape[:-1], self.outer)

    def rows(self, numbers: Tensor) -> Tensor:
        """Return rows of the weight by their numbers, in float32 # [...] -> [..., inner]."""
        panel, place = numbers.div(PANEL, rounding_mode="floor"), numbers.remainder(PANEL)
        found = self.held[panel, :, place]  # [..., inner], or [..., inner / 2, 2]
        return found.reshape(*numbers.shape, self.inner).float()

    @property
    def address(self) -> int:
        """Address of the numbers."""
        return self.held.data_ptr()

    @property
    def size(self) -> int:
        """Number of elements, with the padding of the last panel."""
        return self.held.numel()

    @property
    def filled(self) -> int:
        """Number of outputs, with the padding of the last panel."""
        return len(self.held) * PANEL

    @property
    def inner(self) -> int:
        """Number of inputs."""
        return prod(self.held.shape[1:]) // PANEL

    @property
    def layout(self) -> int:
        return PANELS if self.held.dim() == 3 else PAIRS

    @property
    def like(self) -> NDArray[np.generic]:
        return _LIKE[self.held.dtype] if self.layout == PANELS else _PAIRED

    @property
    def like_alone(self) -> NDArray[np.generic]:
        """`like` for a single product, outside of a compiled forward."""
        return self.like

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the original weight # [outer, inner]."""
        return self.held.transpose(1, 2).reshape(-1, self.inner)[: self.outer].to(dtype)


@cache
def _multiply() -> Callable[..., None]:
    from stretto.local_engine.kernels.tiles import multiply  # noqa: PLC0415 - it imports numba

    return multiply
