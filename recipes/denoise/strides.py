"""Texts with masked rows behind many of their places, for what learns to say several tokens at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recipes.denoise.blocks import Blocked
from recipes.denoise.lessons import Drawing, Lessons, grouped
from recipes.tuning import Arrays, seeded

__all__ = ["Strides", "strides_of", "strides_seen"]

_ANCHORS = 48
_GRAIN = 32  # rows of a batch are a multiple of it


def strides_of(
    sequences: Sequence[Blocked], masks: int, mask: int, chance: random.Random, *, anchors: int = _ANCHORS
) -> Arrays:
    """The rows ``[masks, clean text]`` of some sequences # [sequences, rows].

    ``anchors``: places of each text that get masks behind them, at most.
    """
    drawn = []
    for each in sequences:
        possible = range(each.learned - 1, len(each.tokens) - 2)
        drawn.append(sorted(chance.sample(possible, min(anchors, len(possible)))))
    rows = max(len(each.tokens) + masks * len(places) for each, places in zip(sequences, drawn, strict=True))
    shape = (len(sequences), -(-rows // _GRAIN) * _GRAIN)
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    anchor, noisy = np.full(shape, -1, np.int64), np.zeros(shape, np.bool_)
    targets, weights = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
    for at, (each, places) in enumerate(zip(sequences, drawn, strict=True)):
        size, noise = len(each.tokens), masks * len(places)
        owners = np.repeat(np.array(places, np.int64), masks)
        own = owners + 1 + np.tile(np.arange(masks), len(places))
        tokens[at, :noise], tokens[at, noise : noise + size] = mask, each.tokens
        positions[at, :noise], positions[at, noise : noise + size] = own, np.arange(size)
        anchor[at, :noise], anchor[at, noise : noise + size] = owners, np.arange(size)
        noisy[at, :noise] = True
        inside = own + 1 < size
        # The clean row of the same position says what the model itself says there.
        targets[at, :noise] = np.where(inside, noise + own, -1)
        weights[at, :noise] = np.where(inside, each.weight, 0.0)
    return {
        "tokens": tokens, "positions": positions, "anchors": anchor, "noisy": noisy,
        "targets": targets, "weights": weights,
    }  # fmt: skip


def strides_seen(batch: Mapping[str, Tensor]) -> Tensor:
    """Which rows each row sees # [sequences, 1, rows, rows]: text up to its place, masks of its group up to itself."""
    anchor, noisy, positions = batch["anchors"], batch["noisy"], batch["positions"]
    row, column = anchor[:, :, None], anchor[:, None, :]
    text = ~noisy[:, None, :] & (column >= 0) & (column <= row)
    group = noisy[:, :, None] & noisy[:, None, :] & (row == column)
    group = group & (positions[:, None, :] <= positions[:, :, None])
    itself = torch.eye(anchor.shape[1], dtype=torch.bool, device=anchor.device)
    return (text | group | itself)[:, None]


@dataclass(frozen=True)
class Strides(Lessons):
    """Makes the batches of `strides_of`.

    Attributes:
        masks: behind the last known token.
    """

    masks: int = 3

    def __call__(self) -> Callable[[int], list[Arrays]]:
        """See `Lessons`."""
        drawing = Drawing(self)

        def step(number: int) -> list[Arrays]:
            chance = seeded(self.seed, "step", number)
            return self._batches(list(drawing.draw(chance)), drawing.mask, chance)

        return step

    def held_out(self, count: int) -> list[Arrays]:
        """See `Lessons`."""
        drawing = Drawing(self)
        return self._batches(list(drawing.unseen(count)), drawing.mask, seeded("held out"))

    def _batches(self, drawn: list[Blocked], mask: int, chance: random.Random) -> list[Arrays]:
        drawn = [each for each in drawn if len(each.tokens) - each.learned > self.masks]
        drawn.sort(key=self._rows)
        return [strides_of(group, self.masks, mask, chance) for group in grouped(drawn, self.micro, self._rows)]

    def _rows(self, each: Blocked) -> int:
        return len(each.tokens) + self.masks * min(_ANCHORS, len(each.tokens) - 1 - each.learned)
