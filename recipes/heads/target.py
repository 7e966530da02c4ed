"""The frozen model that a head drafts for: its states of a text, and what it would predict after each of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from recipes.heads.texts import Batch

__all__ = ["Seen", "Target"]


@dataclass(frozen=True)
class Seen:
    """What the model makes of texts.

    Attributes:
        lower: inputs of three layers, side by side # [batch, tokens, 3 * hidden]; nothing where only ``last`` was kept.
        last: normalised final states # [batch, tokens, hidden]
        embedded: the input vectors of the tokens # [batch, tokens, hidden]
    """

    lower: Tensor
    last: Tensor
    embedded: Tensor


class Target:
    """A model of transformers, of which nothing changes.

    Args:
        model: with an output product that is a plain matrix.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.eval().requires_grad_(False)
        config = self.config = model.config.get_text_config(decoder=True)
        self.hidden, self.dtype, self.device = int(config.hidden_size), model.dtype, model.device
        count = int(config.num_hidden_layers)
        self.layers = (min(2, count - 1), count // 2, max(count - 3, 0))
        """Numbers of the layers whose inputs a head reads: those of SafeAILab's EAGLE-3."""

    @property
    def output(self) -> Tensor:
        """The weight of the last product # [vocabulary, hidden]."""
        weight: Tensor = self._model.get_output_embeddings().weight.data
        return weight

    @property
    def norm(self) -> Tensor:
        """The weight of the last norm # [hidden]."""
        weight: Tensor = self._model.get_decoder().norm.weight.data
        return weight

    @torch.no_grad()
    def read(self, tokens: Tensor) -> Seen:
        """Read texts # [batch, tokens]; padding on the right changes nothing before it."""
        found = self._model.get_decoder()(input_ids=tokens, use_cache=False, output_hidden_states=True)
        lower = torch.cat([found.hidden_states[number] for number in self.layers], -1)
        return Seen(lower, found.last_hidden_state, self._model.get_input_embeddings()(tokens))

    @torch.no_grad()
    def seen(self, batch: Batch) -> Seen:
        """What it makes of a batch of texts: it reads them where their states were not kept."""
        if batch.last is None:
            return self.read(batch.tokens)
        last = batch.last.to(self.dtype)
        return Seen(last.new_empty(0), last, self._model.get_input_embeddings()(batch.tokens))

    @torch.no_grad()
    def chances(self, last: Tensor, words: Tensor) -> Tensor:
        """How probable the model holds each of a part of its vocabulary # [..., hidden] -> [..., words]."""
        return linear(last, self.output[words]).float().softmax(-1)
