"""Lexical units, and the [PAD]s after many positions of one text in one forward."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.lexical.pads import AnchoredRows

__all__ = ["Packing", "TextCache", "inside_units", "pack"]


def inside_units(confidence: Tensor, anchors: Tensor, pads: int, threshold: float) -> Tensor:
    """Find which tokens after each anchor are in the lexical unit that begins with the token after the anchor.

    A unit continues as long as the model gives each further token of the text a probability above ``threshold``, when
    it knows all tokens before. Sun et al., arXiv:2405.15208.

    Args:
        confidence: the model's probability of each token of the text, given those before it # [length]
        anchors: positions of last known tokens # [anchors]
        pads: number of [PAD]s; the first predicts the second token after the anchor.
        threshold: from 0 to 1.

    Returns:
        # [anchors, pads]; tokens beyond the text are in no unit.
    """
    device = anchors.device
    sure = torch.cat((confidence > threshold, torch.zeros(pads + 2, dtype=torch.bool, device=device)))
    return sure[anchors[:, None] + 2 + torch.arange(pads, device=device)].cumprod(1).bool()


@dataclass(frozen=True, slots=True)
class Packing(AnchoredRows):
    """The [PAD] rows after many positions of one text, evaluated together.

    Attributes:
        anchor: position of the last token of the text that each row sees # [rows]
        text_states: the text's final states # [1, length, hidden]
    """

    anchor: Tensor = field(default_factory=lambda: torch.empty(0))
    text_states: Tensor = field(default_factory=lambda: torch.empty(0))

    def mask(self, dtype: torch.dtype, window: int | None = None) -> Tensor:
        """Let each row see the text up to its anchor, and the [PAD]s up to itself that have the same one.

        Returns:
            # [1, 1, rows, length + rows]
        """
        own, anchor = self.positions[0][:, None], self.anchor[:, None]
        text = torch.arange(self.text_states.shape[1], device=own.device)
        text_hidden = text > anchor  # [rows, length]
        pads_hidden = (self.anchor != anchor) | (self.positions[0] > own)  # [rows, rows]
        if window is not None:
            text_hidden = text_hidden | (text <= own - window)
            pads_hidden = pads_hidden | (self.positions[0] <= own - window)
        hidden = torch.cat((text_hidden, pads_hidden), 1)[None, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)

    def anchored(self, states: Tensor) -> Tensor:  # noqa: ARG002 - all rows are [PAD]s
        """The anchors' states are those of the text."""
        return self.text_states[:, self.anchor]


def pack(anchors: Tensor, pads: int, text_states: Tensor) -> Packing:
    """Lay out the [PAD]s after each anchor, in the order of the anchors # [anchors] -> [anchors * pads] rows."""
    number = torch.arange(pads, device=anchors.device).repeat(len(anchors))
    anchor = anchors.repeat_interleave(pads)
    return Packing(
        tokens=(-1 - number)[None],
        positions=(anchor + 1 + number)[None],
        kv_len=text_states.shape[1] + len(number),
        blank=torch.ones(1, len(number), dtype=torch.bool, device=anchors.device),
        anchor=anchor,
        text_states=text_states,
    )


class TextCache(KeyValueCache):
    """Keys and values of a text that was read, before those of rows that are trained; nothing is written in place."""

    def __init__(self, text: KeyValueCache) -> None:
        super().__init__(1)
        self._keys, self._values, self.kv_len = text._keys, text._values, text.kv_len

    def begin(self, rows: Rows, *, packed: bool = False, sequence: int | None = None) -> None:
        """Nothing has to be made ready."""

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Give back the text's keys and values, then the rows' # [1, length + rows, key_value_heads, head_dim]."""
        text_keys, text_values = self._keys[layer][:, : self.kv_len], self._values[layer][:, : self.kv_len]
        return torch.cat((text_keys, keys), 1), torch.cat((text_values, values), 1)
