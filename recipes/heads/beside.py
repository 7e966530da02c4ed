"""Heads beside the model's last state, one for each token ahead: blockwise prediction, Medusa and Hydra.

Blockwise: Stern et al., "Blockwise Parallel Decoding for Deep Autoregressive Models", arXiv:1811.03115, a feed-forward
layer for each. Medusa: Cai et al., arXiv:2401.10774, a residual block for each. Hydra: Ankner et al., arXiv:2402.05109,
where each also reads the tokens guessed before it. Their authors give each Medusa head an output matrix of the whole
vocabulary; here all heads share one of a small vocabulary, as Stern's share the model's: on a processor, a draft costs
by the weights that it reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu, silu

from recipes.heads.network import Head, Sizes, behind, matrix
from recipes.heads.target import Seen, Target

__all__ = ["Blockwise", "Hydra", "Medusa"]


class Blockwise(Head):
    """The state, and what a feed-forward layer adds to it."""

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        self.inner = nn.ParameterList(matrix(sizes.inner, target.hidden) for _ in range(sizes.depth))
        self.outer = nn.ParameterList(matrix(target.hidden, sizes.inner, 0.1) for _ in range(sizes.depth))

    def states(self, seen: Seen) -> list[Tensor]:
        """See `Head`."""
        pairs = zip(self.inner, self.outer, strict=True)
        return [seen.last.float() + linear(relu(linear(seen.last, inner)), outer) for inner, outer in pairs]

    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """See `Head`."""
        tensors = {"lm_head.weight": self.unembedding.detach()}
        for number, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            tensors[f"{number}.inner.weight"], tensors[f"{number}.outer.weight"] = inner.detach(), outer.detach()
        return tensors, {"architectures": ["BlockwiseHeads"], "num_heads": self.sizes.depth}


class Medusa(Head):
    """The state, and a linear layer with an activation that is added to it."""

    reads = 0
    """Whether a head reads the tokens up to its own."""

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        hidden = target.hidden
        self.linear = nn.ParameterList(
            matrix(hidden, (1 + self.reads * (1 + number)) * hidden, 0.1) for number in range(sizes.depth)
        )
        self.bias = nn.ParameterList(torch.zeros(hidden) for _ in range(sizes.depth))

    def states(self, seen: Seen) -> list[Tensor]:
        """See `Head`."""
        found = []
        for number, (weight, bias) in enumerate(zip(self.linear, self.bias, strict=True)):
            read = seen.last
            if self.reads:
                read = torch.cat((read, *(behind(seen.embedded, 1 + ahead) for ahead in range(1 + number))), -1)
            found.append(seen.last.float() + silu(linear(read, weight) + bias))
        return found

    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """See `Head`: the names of the Medusa authors' files, but for the one output matrix."""
        tensors = {"lm_head.weight": self.unembedding.detach()}
        for number, (weight, bias) in enumerate(zip(self.linear, self.bias, strict=True)):
            tensors[f"{number}.0.linear.weight"] = weight.detach()
            tensors[f"{number}.0.linear.bias"] = bias.detach()
        names = {"architectures": [f"{type(self).__name__}Heads"]}
        return tensors, {**names, "medusa_num_heads": self.sizes.depth, "medusa_num_layers": 1}


class Hydra(Medusa):
    """The same, where a head reads the tokens that are guessed before its own."""

    reads = 1
