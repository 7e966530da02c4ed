"""Hidden states of some layers, which a forward hands out beside its logits: heads that draft read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

__all__ = ["LAST", "LayerStates", "keys_and_values"]

LAST = -1
"""The state behind the last layer, normalised: what the last product reads."""


def keys_and_values(layer: int) -> int:
    """The number under which the keys and values that a layer makes of its rows are wanted, side by side.

    Only the forward of transformers' own code hands them out.
    """
    return -2 - layer


class LayerStates:
    """Names layers to a forward, which gives it their states of all rows.

    Args:
        layers: numbers of layers passed: 0 is the input vector, k the residual stream behind k layers; or `LAST`, or
            what `keys_and_values` says.

    Attributes:
        found: by these numbers, once the forward has run; those of padding have no meaning # [batch, rows, hidden]
    """

    __slots__ = ("found", "layers")

    def __init__(self, layers: Iterable[int]) -> None:
        self.layers = frozenset(layers)
        self.found: dict[int, Tensor] = {}

    def of(self, sequence: int, rows: slice, layers: Sequence[int]) -> Tensor:
        """The states of some rows of a sequence, those of the layers side by side # [rows, layers * hidden]."""
        return torch.cat([self.found[layer][sequence, rows] for layer in layers], -1)
