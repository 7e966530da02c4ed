"""What DSpark adds to the logits of a block: which tokens follow the one in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.errors import SettingsError
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.model.products import Weight, product

__all__ = ["Markov"]


class Markov:
    """A low-rank table of what follows each token, which the state may gate.

    Args:
        before: of the token in front # [vocabulary, rank]
        after: of the token that follows # [words, rank]
        gate: weight and bias of the gate, which reads the state and ``before`` # [rank, hidden + rank], [rank]
    """

    def __init__(self, before: Tensor, after: Weight, gate: tuple[Tensor, Tensor | None] | None) -> None:
        self._before, self._after, self._gate = before, after, gate

    @classmethod
    def of(cls, weights: Weights, config: Mapping[str, Any], hidden: int) -> Markov | None:
        """Take it from a head; ``None`` where it has none. Raises `SettingsError` for a kind that is not known."""
        rank, kind = int(config.get("markov_rank") or 0), config.get("markov_head_type", "vanilla")
        if not rank:
            return None
        if kind not in ("vanilla", "gated"):
            raise SettingsError(
                f"The head in {weights.where} cannot be run: its Markov head is of the kind {kind}, and known are "
                "vanilla and gated."
            )
        gate = None
        if kind == "gated":
            name = "markov_head.gate_proj"
            gate = weights.get(f"{name}.weight", rank, hidden + rank), weights.find(f"{name}.bias", rank)
        name = "markov_head.markov_w"
        return cls(weights.get(f"{name}1.weight", -1, rank), weights.matrix(f"{name}2.weight", -1, rank), gate)

    def __call__(self, tokens: Tensor, state: Tensor) -> Tensor:
        """What is added to the logits behind tokens # [rows], where the block has this state # [hidden]."""
        read = embedding(tokens, self._before)
        if self._gate is not None:
            beside = torch.cat((state.expand(len(read), -1), read), -1)
            read = read * product(beside, *self._gate).sigmoid()
        return product(read, self._after)
