"""Masked rows behind many places of a text, for what learns to say several tokens at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from recipes.packing import scores

__all__ = ["Strides", "drawn_strides"]


class Strides(NamedTuple):
    """Groups of masks behind some places, side by side in a row.

    Attributes:
        positions: of the masks # [rows, groups * masks]
        scores: added to the attention scores, of the text's keys and their own # [rows, 1, groups * masks, keys]
        targets: the row of the text that says what each mask should say # [rows, groups * masks]
        learned: whether there is such a row, and the answer goes on there # [rows, groups * masks]
    """

    positions: Tensor
    scores: Tensor
    targets: Tensor
    learned: Tensor


def drawn_strides(
    batch: Mapping[str, Tensor], masks: int, groups: int, chance: torch.Generator, dtype: torch.dtype
) -> Strides:
    """Choose places at which a token of the answer is said; mask number n says what the text's row n + 1 behind says.

    A mask sees the text up to its place, and the masks of its group up to itself.
    """
    texts, weights = batch["texts"], batch["weights"]
    rows, length = texts.shape
    says = (weights.roll(-1, 1) > 0) & (texts.roll(-1, 1) == texts)  # the next token is one of the answer
    says[:, -1] = False
    draws = torch.rand(texts.shape, generator=chance, device=texts.device)
    places = torch.where(says, draws, -1.0).topk(groups, 1).indices  # [rows, groups]
    ahead = torch.arange(1, masks + 1, device=texts.device).repeat(groups)  # [groups * masks]
    owners = places.repeat_interleave(masks, 1)
    targets = owners + ahead
    inside = targets < length
    targets = targets.clamp(max=length - 1)
    own = texts.gather(1, owners)
    learned = inside & says.gather(1, owners) & (texts.gather(1, targets) == own) & says.gather(1, targets)
    text = (texts[:, None, :] == own[:, :, None]) & (own[:, :, None] >= 0)
    text = text & (torch.arange(length, device=texts.device) <= owners[:, :, None])
    number = torch.arange(groups * masks, device=texts.device)
    group = (number[:, None] // masks == number // masks) & (number <= number[:, None])
    visible = torch.cat((text, group.expand(rows, -1, -1)), 2)
    return Strides(batch["positions"].gather(1, owners) + ahead, scores(visible, dtype), targets, learned)
