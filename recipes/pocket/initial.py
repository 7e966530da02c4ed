"""Where training starts: with heads that copy.

Copying is what transformations and lists need, and what a small network finds late or never: without this, transforms
were right in 0% after 115 minutes; with it, the loss on copied words fell in the first minute.

A head of the first layer attends to the token before; heads of the second attend to where the token at hand stood
before, and pass on what came next: the induction heads of Olsson et al., arXiv:2209.11895.  Starting attention from a
structure instead of noise: Trockman and Kolter, arXiv:2305.09828.  Training is free to change all of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recipes.pocket.network import Attention, Network

__all__ = ["put_copying"]

_NEAR = 12
"""How many of the fastest rotary frequencies distinguish neighbours; the slower ones are left to compare content."""


@torch.no_grad()
def put_copying(network: Network, seed: int) -> None:
    """Give the first layer a previous-token head and the second one or two induction heads."""
    config = network.config
    width, half = config.head_width, config.head_width // 2
    near = min(_NEAR, width // 4)
    generator = torch.Generator().manual_seed(seed)
    constant = config.hidden - 1  # the last number of every embedding is the same: the first head relies on it
    embedding = network.model.embed_tokens.weight
    embedding.mul_(4.0)  # so that the first updates, of one size each, change little
    embedding[:, constant] = 3 * float(embedding.std())

    def directions() -> Tensor:
        """Orthogonal directions that leave the constant out  # [head_width, hidden]."""
        found = torch.linalg.qr(torch.randn(config.hidden - 1, width, generator=generator)).Q.T
        return torch.cat((found, torch.zeros(width, 1)), dim=1)

    seen, kept = directions(), directions()
    first, second = (_attention(network, layer) for layer in (0, 1))
    # The score of a key so many tokens back is the sum of cos(angle * (distance - 1)): it is largest at one.
    angles = torch.acos(network.cosine[1, :near].clamp(-1, 1))  # type: ignore[index]  # turned in one token
    first.q_proj.weight[:near, constant] += 2.0
    first.k_proj.weight[:near, constant] += 2.0 * angles.cos()
    first.k_proj.weight[half : half + near, constant] += 2.0 * angles.sin()
    first.v_proj.weight[:width] = 0.33 * seen
    first.o_proj.weight[:, :width] = 0.33 * kept.T

    slow = torch.cat((torch.arange(near, half), torch.arange(half + near, width)))  # little turned: for content
    repeats = config.heads // config.key_value_heads
    for number in range(min(2, config.key_value_heads)):
        part = slice(number * (width - len(slow)), number * (width - len(slow)) + len(slow))
        query, key = number * repeats * width, number * width
        second.q_proj.weight[query + slow] = 2.0 * seen[part]
        second.k_proj.weight[key + slow] = 2.0 * kept[part]
        passed = 0.63 * directions()
        second.v_proj.weight[key : key + width] = passed
        second.o_proj.weight[:, query : query + width] = passed.T


def _attention(network: Network, layer: int) -> Attention:
    found: Attention = network.model.layers[layer].self_attn  # type: ignore[assignment]
    return found
