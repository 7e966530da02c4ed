"""[PAD] rows: tokens without a text, at which a model says what comes after the next token.

A model's base stays as it is. What is trained are an input vector for each place behind the last known token, low-rank
additions to some of its matrices, and a last layer that also reads what the model makes of the last known token, in
which the token after it is all but said. They act on [PAD] rows only, so that every other row is computed as without
them. Sun et al., "Lexical unit decoding", arXiv:2405.15208, where the whole model is trained; additions of low rank: Hu
et al., arXiv:2106.09685 (LoRA); beside the feed-forward layer: He et al., arXiv:2110.04366.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, relu

__all__ = ["PadAdapter", "PadLayer"]


@dataclass(frozen=True, slots=True)
class PadLayer:
    """What one layer adds on [PAD] rows; matrices stand as `torch.nn.functional.linear` takes them."""

    attention_in: Tensor  # [rank, hidden]
    attention_out: Tensor  # [(heads + 2 * key_value_heads) * head_dim, rank]
    feed_forward_in: Tensor  # [width, hidden]
    feed_forward_out: Tensor  # [hidden, width]

    def attention(self, projected: Tensor, normed: Tensor, active: Tensor) -> Tensor:
        """Add to queries, keys and values # [batch, rows, ...], where ``active`` # [batch, rows, 1] is 1."""
        return projected + linear(linear(normed, self.attention_in) * active, self.attention_out)

    def feed_forward(self, state: Tensor, normed: Tensor, active: Tensor) -> Tensor:
        """Add to the residual stream # [batch, rows, hidden], where ``active`` is 1."""
        return state + linear(relu(linear(normed, self.feed_forward_in)) * active, self.feed_forward_out)


@dataclass(frozen=True, slots=True)
class PadAdapter:
    """Everything that is trained for [PAD] rows.

    The token id of the [PAD] at place i behind the last known token is ``-1 - i``: no model can choose it, so none is
    ever committed.

    Attributes:
        places: input vector of each place; there are k - 1 of them for k tokens at once # [places, hidden]
        last_in: of the last layer, over a row's own final state and its anchor's # [units, 2 * hidden]
        last_out: # [hidden, units]
        layers: one for each of the base's.
    """

    places: Tensor
    last_in: Tensor
    last_out: Tensor
    layers: tuple[PadLayer, ...]

    def embed(self, tokens: Tensor, base: Tensor) -> Tensor:
        """Look up the input vectors of tokens and [PAD]s # [batch, rows] -> [batch, rows, hidden]."""
        own = embedding((-1 - tokens).clamp(min=0), self.places)
        return torch.where((tokens < 0)[..., None], own, embedding(tokens.clamp(min=0), base))

    def last(self, state: Tensor, anchored: Tensor, active: Tensor) -> Tensor:
        """Add to the final states # [batch, rows, hidden], given those of the rows' anchors, where ``active`` is 1."""
        units = relu(linear(torch.cat((state, anchored), -1), self.last_in))
        return state + linear(units * active, self.last_out)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name."""
        named = {"places": self.places, "last_in": self.last_in, "last_out": self.last_out}
        for number, layer in enumerate(self.layers):
            for name in PadLayer.__slots__:
                named[f"layers.{number}.{name}"] = getattr(layer, name)
        return named

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> PadAdapter:
        """Put together what `tensors` took apart."""
        count = sum(name.endswith(".attention_in") for name in tensors)
        layers = (
            PadLayer(*(tensors[f"layers.{number}.{name}"] for name in PadLayer.__slots__)) for number in range(count)
        )
        return cls(tensors["places"], tensors["last_in"], tensors["last_out"], tuple(layers))
