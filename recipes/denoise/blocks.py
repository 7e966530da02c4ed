"""Texts in blocks, and what is masked in them.

Block diffusion (Arriola et al., "Block Diffusion", arXiv:2503.09573; SDAR, arXiv:2510.06303) learns all blocks of a
text in one forward. The clean text is read first, in blocks: a row sees its block and all before it, as the keys of
finished blocks do when the model writes. Then each noisy block, in which some tokens are masked, sees itself and the
clean blocks before it. So the clean text is computed once for several noisy copies of it.

Blocks are counted from the first token of the prompt. A row predicts the token after its own (`shifted`), as it did in
the causal model, so the last row of a clean block predicts the first token of the next one; or its own token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from recipes.packing import same_text, scores

__all__ = ["Noise", "cut_to_block", "drawn_noise", "sees_clean", "sees_noisy"]


def cut_to_block(
    prompt: Sequence[int], answer: Sequence[int], block: int, *, end: int, limit: int | None, longest: int
) -> tuple[int, ...]:
    """Prompt and answer, filled up with ``end`` to a whole block, at most ``longest`` tokens.

    With a ``limit``, the block that holds so many tokens of the answer is the last one.
    """
    tokens = [*prompt, *answer]
    if limit is not None:
        tokens = tokens[: -(-(len(prompt) + limit) // block) * block]
    tokens += [end] * (-len(tokens) % block)
    return tuple(tokens[: longest // block * block])


class Noise(NamedTuple):
    """Noisy copies of a batch's texts.

    Attributes:
        tokens: with masks # [rows, length]
        masked: where # [rows, length]
    """

    tokens: Tensor
    masked: Tensor


def drawn_noise(
    batch: Mapping[str, Tensor], block: int, mask: int, chance: torch.Generator, *, copies: int, wholly: float
) -> Noise:
    """Mask some tokens of each block of the answers, in so many ``copies`` of the batch, one after the other.

    In the share ``wholly`` of the blocks all are masked, which is how each block begins when the model writes; of the
    others so many as a number drawn from one to all of them says.
    """
    tokens, open_ = (each.repeat(copies, 1) for each in (batch["tokens"], batch["weights"] > 0))
    shape = (len(tokens), -1, block)
    in_blocks = open_.view(shape)
    draws = torch.rand(in_blocks.shape, generator=chance, device=tokens.device)
    ranks = torch.where(in_blocks, draws, 2.0).argsort(-1).argsort(-1)
    count = torch.rand((*in_blocks.shape[:2], 2), generator=chance, device=tokens.device)
    size = in_blocks.sum(-1)
    some = torch.where(count[..., 0] < wholly, size, (count[..., 1] * size).long() + 1)
    masked = (in_blocks & (ranks < some[..., None])).view(tokens.shape)
    return Noise(tokens.masked_fill(masked, mask), masked)


def sees_clean(texts: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Attention scores of the clean text # [rows, 1, length, length]."""
    number = torch.arange(texts.shape[1], device=texts.device) // block
    return scores(same_text(texts) & (number[None, :] <= number[:, None]), dtype)


def sees_noisy(texts: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Attention scores of a noisy copy, of the clean text's keys and its own # [rows, 1, length, 2 * length]."""
    number = torch.arange(texts.shape[1], device=texts.device) // block
    own, before = number[None, :] == number[:, None], number[None, :] < number[:, None]
    same = same_text(texts)
    return scores(torch.cat((same & before, same & own), 2), dtype)
