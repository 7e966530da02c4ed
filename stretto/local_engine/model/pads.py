"""[PAD] rows: tokens without a text, at which a model predicts tokens beyond the next one.

The base model is not changed. Trained are an input vector for each position behind the last known token, units beside
the feed-forward layers of the upper half, and a last layer that also reads the final state of the last known token,
which almost determines the next token. They act on [PAD] rows only; every other row is computed as without them.
Sun et al., "Lexical unit decoding", arXiv:2405.15208, where the whole model is trained; units beside the feed-forward
layer: He et al., arXiv:2110.04366.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.local_engine.model.products import Layout, Weight, added_product, layout_for, packed, product

__all__ = ["PadAdapter", "PadLayer"]


@dataclass(frozen=True, slots=True)
class PadLayer:
    """Units beside a layer, for [PAD] rows, with matrices as `torch.nn.functional.linear` takes them."""

    units_in: Weight  # [units, hidden]
    units_out: Weight  # [hidden, units]

    def __call__(self, state: Tensor, read: Tensor, active: Tensor) -> Tensor:
        """Add the units' output for ``read`` # [batch, rows, hidden] to the residual stream, where ``active`` is 1."""
        units = product(read, self.units_in, rectified=True)  # [batch, rows, units]
        return added_product(units * active, self.units_out, state)

    def packed(self, layout: Layout | None) -> PadLayer:
        """The same, laid out for the processor; see `stretto.local_engine.model.products`."""
        return PadLayer(packed(self.units_in, layout), packed(self.units_out, layout))


@dataclass(frozen=True, slots=True)
class PadAdapter:
    """Everything that is trained for [PAD] rows.

    The [PAD] number i behind the last known token has the token id ``-1 - i``. No model can choose it, so it is never
    committed.

    Attributes:
        places: input vector of each [PAD] in turn; k - 1 of them for k tokens at once # [places, hidden]
        layers: additions by the number of the base's layer.
        last: behind the last layer, over a row's own final state and its anchor's # [batch, rows, 2 * hidden]
    """

    places: Tensor
    layers: Mapping[int, PadLayer]
    last: PadLayer

    def embed(self, tokens: Tensor, read_in: Callable[[Tensor], Tensor]) -> Tensor:
        """Look up the input vectors of tokens and [PAD]s # [batch, rows] -> [batch, rows, hidden]."""
        own = embedding((-1 - tokens).clamp(min=0), self.places)
        return torch.where((tokens < 0)[..., None], own, read_in(tokens.clamp(min=0)))

    def finish(self, state: Tensor, anchored: Tensor, active: Tensor) -> Tensor:
        """Add to the final states # [batch, rows, hidden], given those of the rows' anchors."""
        return self.last(state, torch.cat((state, anchored), -1), active)

    def packed(self, *, panels: bool) -> PadAdapter:
        """The same with its matrices laid out for the processor, in panels or as torch does."""
        layout = None
        if panels:
            layout = layout_for(self.dense())
        layers = {number: layer.packed(layout) for number, layer in self.layers.items()}
        return PadAdapter(self.places.float() if panels else self.places, layers, self.last.packed(layout))

    def dense(self) -> list[Tensor]:
        """Its matrices."""
        return [part for name, part in self.tensors().items() if name != "places"]

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name."""
        named: dict[str, Weight] = {
            "places": self.places,
            "last.units_in": self.last.units_in,
            "last.units_out": self.last.units_out,
        }
        for number, layer in self.layers.items():
            named |= {f"layers.{number}.units_in": layer.units_in, f"layers.{number}.units_out": layer.units_out}
        return {name: part if isinstance(part, Tensor) else part.dense() for name, part in named.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> PadAdapter:
        """Make an adapter from the result of `tensors`."""
        numbers = sorted(int(name.split(".")[1]) for name in tensors if name.startswith("layers.") and "_in" in name)

        def layer(prefix: str) -> PadLayer:
            return PadLayer(tensors[f"{prefix}.units_in"], tensors[f"{prefix}.units_out"])

        return cls(tensors["places"], {number: layer(f"layers.{number}") for number in numbers}, layer("last"))
