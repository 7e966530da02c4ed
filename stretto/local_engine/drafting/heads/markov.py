"""What DSpark adds to a block: which tokens follow the one in front, and how sure it is of each place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.errors import SettingsError
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.model.products import Weight, product

__all__ = ["Confidence", "Markov"]


class Markov:
    """A low-rank table of what follows each token, which the state may gate.

    Args:
        before: of the token in front # [vocabulary, rank]
        after: of the token that follows # [words, rank]
        gate: weight and bias of the gate, which reads the state and ``before`` # [rank, hidden + rank], [rank]
    """

    def __init__(self, before: Tensor, after: Weight, gate: tuple[Tensor, Tensor | None] | None) -> None:
        self._before, self._after, self._gate = before, after, gate

    @property
    def rank(self) -> int:
        """Numbers that are known of each token."""
        return int(self._before.shape[1])

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

    def read(self, tokens: Tensor) -> Tensor:
        """What is known of the tokens in front # [rows] -> [rows, rank]."""
        return embedding(tokens, self._before)

    def __call__(self, tokens: Tensor, state: Tensor) -> Tensor:
        """What is added to the logits behind tokens # [rows], where the block has this state # [hidden]."""
        read = self.read(tokens)
        if self._gate is not None:
            beside = torch.cat((state.expand(len(read), -1), read), -1)
            read = read * product(beside, *self._gate).sigmoid()
        return product(read, self._after)


class Confidence:
    """How likely the best token of a place is accepted, by the state of the block and the token in front.

    Args:
        weight: # [hidden, or hidden + rank]
        bias: # [1]
        markov: knows the token in front; ``None`` where only the state is read.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, markov: Markov | None) -> None:
        self._weight, self._bias, self._markov = weight, bias, markov

    @classmethod
    def of(cls, weights: Weights, hidden: int, markov: Markov | None) -> Confidence:
        """Take it from a head."""
        name = "confidence_head.proj"
        rank = 0 if markov is None else markov.rank
        return cls(weights.get(f"{name}.weight", 1, hidden + rank)[0], weights.find(f"{name}.bias", 1), markov)

    def __call__(self, tokens: Tensor, state: Tensor) -> list[float]:
        """Of a place with this state, behind each of these tokens."""
        read = state.expand(len(tokens), -1)
        if self._markov is not None:
            read = torch.cat((read, self._markov.read(tokens)), -1)
        found = read @ self._weight
        found = found if self._bias is None else found + self._bias
        sure: list[float] = found.sigmoid().tolist()
        return sure
