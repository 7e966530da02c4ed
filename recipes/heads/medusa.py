"""Medusa's heads: from the model's last state, one for each token ahead.

Cai et al., arXiv:2401.10774, a residual block for each. Its authors give each head an output matrix; here all learn
one, of a small vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from recipes.heads.network import Head, Sizes, matrix
from recipes.heads.target import Seen, Target

__all__ = ["Medusa"]


class Medusa(Head):
    """The state, and a linear layer with an activation that is added to it."""

    reads_lower = False

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        hidden = target.hidden
        self.linear = nn.ParameterList(matrix(hidden, hidden, 0.1) for _ in range(sizes.depth))
        self.bias = nn.ParameterList(torch.zeros(hidden) for _ in range(sizes.depth))

    def states(self, seen: Seen) -> list[Tensor]:
        """See `Head`."""
        return [
            seen.last.float() + silu(linear(seen.last, weight) + bias)
            for weight, bias in zip(self.linear, self.bias, strict=True)
        ]

    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """See `Head`: the files of Medusa's authors, in which each head has an output matrix."""
        tensors: dict[str, Tensor] = {}
        for number, (weight, bias) in enumerate(zip(self.linear, self.bias, strict=True)):
            tensors[f"{number}.0.linear.weight"] = weight.detach()
            tensors[f"{number}.0.linear.bias"] = bias.detach()
            tensors[f"{number}.1.weight"] = self.unembedding.detach().clone()
        return tensors, {"medusa_num_heads": self.sizes.depth, "medusa_num_layers": 1}
