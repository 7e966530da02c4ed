"""Heads beside the model's last state, one for each token ahead: Medusa, Hydra and blockwise prediction.

Medusa: Cai et al., arXiv:2401.10774, a residual block for each. Hydra: Ankner et al., arXiv:2402.05109, where each also
reads the tokens guessed before it. Blockwise: Stern et al., arXiv:1811.03115, where the model's own output product says
what a block foresees; here with the block of Medusa. Medusa's authors give each head an output matrix; here all learn
one, of a small vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from recipes.heads.network import Head, Sizes, behind, matrix
from recipes.heads.target import Seen, Target

__all__ = ["Blockwise", "Hydra", "Medusa"]


class Medusa(Head):
    """The state, and a linear layer with an activation that is added to it."""

    reads_lower = False

    reads_tokens = False
    """Whether a head reads the tokens up to its own."""

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        hidden = target.hidden
        reads = [2 + number if self.reads_tokens else 1 for number in range(sizes.depth)]
        self.linear = nn.ParameterList(matrix(hidden, own * hidden, 0.1) for own in reads)
        self.bias = nn.ParameterList(torch.zeros(hidden) for _ in reads)

    def states(self, seen: Seen) -> list[Tensor]:
        """See `Head`."""
        found = []
        for number, (weight, bias) in enumerate(zip(self.linear, self.bias, strict=True)):
            read = seen.last
            if self.reads_tokens:
                read = torch.cat((read, *(behind(seen.embedded, 1 + ahead) for ahead in range(1 + number))), -1)
            found.append(seen.last.float() + silu(linear(read, weight) + bias))
        return found

    def exported(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """See `Head`: the files of Medusa's authors, in which each head has an output matrix."""
        tensors: dict[str, Tensor] = {}
        for number, (weight, bias) in enumerate(zip(self.linear, self.bias, strict=True)):
            tensors[f"{number}.0.linear.weight"] = weight.detach()
            tensors[f"{number}.0.linear.bias"] = bias.detach()
            if self.has_words:
                tensors[f"{number}.1.weight"] = self.unembedding.detach().clone()
        return tensors, {"medusa_num_heads": self.sizes.depth, "medusa_num_layers": 1}


class Hydra(Medusa):
    """The same, where a head reads the tokens that are guessed before its own."""

    reads_tokens = True


class Blockwise(Medusa):
    """The same, where nothing but the blocks learns. It can say every token; the frequent ones are what it learns."""

    has_words = False

    def __init__(self, target: Target, words: Tensor, sizes: Sizes) -> None:
        super().__init__(target, words, sizes)
        frozen = self.unembedding.detach()
        del self.unembedding
        self.register_buffer("unembedding", frozen)
