"""Weights in panels, held in the narrowest type that has all their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from stretto.local_engine.compiled.crew import share
from stretto.local_engine.compiled.jit import first_call
from stretto.local_engine.compiled.shelf import Shelf
from stretto.local_engine.compiled.tiles import multiply
from stretto.local_engine.compiled.vectors import PANEL

__all__ = ["LIKE", "Panels", "narrowest", "shelf_for"]

LIKE: dict[torch.dtype, NDArray[np.generic]] = {
    torch.bfloat16: np.empty(0, np.uint16),
    torch.float16: np.empty(0, np.int16),
    torch.float32: np.empty(0, np.float32),
}
"""For each type that weights are held in, what `multiply` knows it by: numpy has no bfloat16."""


def narrowest(weights: Sequence[Tensor]) -> torch.dtype:
    """The narrowest type that has all numbers of these weights."""
    for dtype in (torch.bfloat16, torch.float16):
        if all(torch.equal(weight.to(dtype).to(weight.dtype), weight) for weight in weights):
            return dtype
    return torch.float32


def shelf_for(weights: Sequence[Tensor], dtype: torch.dtype) -> Shelf | None:
    """Memory for all of these weights in panels of this type; `None` where they do not get into panels."""
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
        return None
    filled = [-(-len(weight) // PANEL) * PANEL * weight.shape[1] for weight in weights]
    try:
        return Shelf(sum(filled) * dtype.itemsize, len(filled))
    except OSError:  # not so much at once
        return None


@dataclass(frozen=True, slots=True)
class Panels:
    """A weight # [outer, inner] laid out so that a product reads it from beginning to end.

    The numbers of as many outputs as a register holds stand side by side, input by input. Most models are published in
    half precision; run in float32, such weights are read as they were published and widened in the product: half the
    memory to read, the same numbers.
    """

    held: Tensor  # [outer / PANEL, inner, PANEL]
    outer: int

    @classmethod
    def of(cls, weight: Tensor, dtype: torch.dtype, shelf: Shelf | None = None) -> Panels:
        """Lay a float32 weight out, on a shelf with those it is used with; its numbers must be ones of ``dtype``."""
        outer, inner = weight.shape
        panels = pad(weight.to(dtype), (0, 0, 0, -outer % PANEL)).view(-1, PANEL, inner).transpose(1, 2)
        held = torch.empty(panels.shape, dtype=dtype) if shelf is None else shelf.room(panels.shape, dtype)
        return cls(held.copy_(panels), outer)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply rows of float32 # [..., inner] -> [..., outer]."""
        if rows.dtype != torch.float32:
            raise TypeError(f"weights in panels are multiplied with float32, not with {rows.dtype}")
        flat = rows.reshape(-1, rows.shape[-1]).contiguous()
        result = flat.new_empty(len(flat), len(self.held) * PANEL)
        source, target = flat.numpy(), result.numpy()
        with first_call(("product", self.held.dtype)) as is_first:
            amount = 0 if is_first else len(flat) * self.held.numel()
            share(amount, lambda part, parts: multiply(self.like, source, self.address, target, part, parts))
        return result[:, : self.outer].view(*rows.shape[:-1], self.outer)

    @property
    def address(self) -> int:
        """Where the numbers stand."""
        return self.held.data_ptr()

    @property
    def like(self) -> NDArray[np.generic]:
        """See `LIKE`."""
        return LIKE[self.held.dtype]

    def dense(self) -> Tensor:
        """The weight as it was # [outer, inner]."""
        panels, inner, _ = self.held.shape
        return self.held.transpose(1, 2).reshape(panels * PANEL, inner)[: self.outer].float()
