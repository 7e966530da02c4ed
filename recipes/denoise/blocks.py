"""Sequences in blocks, and which rows of a forward see which.

Block diffusion (Arriola et al., "Block Diffusion", arXiv:2503.09573; SDAR, arXiv:2510.06303) learns all blocks of a
text in one forward. The input is ``[x_t, x_0]``: the blocks of the answer with some tokens masked, then the clean text.
A noisy block sees itself (block-diagonal) and the clean blocks before it (offset block-causal); a clean block sees
itself and the clean blocks before it (block-causal), as the keys of finished blocks do when the model writes.

Blocks are counted from the first token of the prompt. A masked row predicts its own token, not the next one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recipes.tuning import Arrays

__all__ = ["Blocked", "batch_of", "cut_to_block", "seen"]

_GRAIN = 32
"""Rows of a batch are a multiple of this: kernels are chosen once for each shape, so shapes are few."""


@dataclass(frozen=True)
class Blocked:
    """One example in tokens, a whole number of blocks long.

    Attributes:
        tokens: of prompt and answer.
        learned: place of the answer's first token.
        weight: how much one of its tokens counts.
    """

    tokens: tuple[int, ...]
    learned: int
    weight: float = 1.0

    def rows(self, block: int) -> int:
        """Rows of the forward: the clean text, and the noisy blocks that hold tokens of the answer."""
        return 2 * len(self.tokens) - self.learned // block * block


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


def batch_of(
    sequences: Sequence[Blocked], block: int, mask: int, chance: random.Random, *, wholly: float = 0.25
) -> Arrays:
    """The rows ``[x_t, x_0]`` of some sequences # [sequences, rows].

    Of each block so many tokens are masked as a number drawn from one to all of them says; in the share ``wholly`` of
    the blocks all are, which is how each block begins when the model writes. A masked token counts by the inverse of
    that share, as in the paper, so each block counts alike.
    """
    longest = max(each.rows(block) for each in sequences)
    shape = (len(sequences), -(-longest // _GRAIN) * _GRAIN)
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    blocks, noisy = np.full(shape, -1, np.int64), np.zeros(shape, np.bool_)
    targets, weights = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
    answers = np.zeros(shape, np.bool_)
    for at, each in enumerate(sequences):
        own = np.array(each.tokens)
        first = each.learned // block * block
        size, noise = len(own), len(own) - first
        places = np.concatenate((np.arange(first, size), np.arange(size)))
        count = noise + size
        tokens[at, :noise], tokens[at, noise:count] = own[first:], own
        positions[at, :count], blocks[at, :count] = places, places // block
        noisy[at, :noise] = True
        answers[at, each.learned - first : noise] = True
        for start in range(first, size, block):
            learned = list(range(max(start, each.learned), start + block))
            masked = len(learned) if chance.random() < wholly else chance.randint(1, len(learned))
            rows = np.array(chance.sample(learned, masked)) - first
            targets[at, rows] = tokens[at, rows]
            weights[at, rows] = each.weight * len(learned) / masked
            tokens[at, rows] = mask
    return {
        "tokens": tokens, "positions": positions, "blocks": blocks, "noisy": noisy,
        "targets": targets, "weights": weights, "learned": answers,
    }  # fmt: skip


def seen(batch: Mapping[str, Tensor]) -> Tensor:
    """Which rows each row sees # [sequences, 1, rows, rows]. Rows without a block see themselves only."""
    blocks, noisy = batch["blocks"], batch["noisy"]
    row, column = blocks[:, :, None], blocks[:, None, :]
    row_noisy, column_noisy = noisy[:, :, None], noisy[:, None, :]
    diagonal = row_noisy & column_noisy & (row == column)
    before = ~column_noisy & (column >= 0) & (column < row)
    own = ~row_noisy & ~column_noisy & (column >= 0) & (column == row)
    itself = torch.eye(blocks.shape[1], dtype=torch.bool, device=blocks.device)
    return (diagonal | before | own | itself)[:, None]
