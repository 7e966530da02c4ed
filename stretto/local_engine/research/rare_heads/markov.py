"""What DSpark adds to a block: which tokens follow those in front, and how sure it is of each place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.local_engine.drafting.heads.decoder import Weights, whole_number
from stretto.local_engine.model.forward.products import Weight, product
from stretto.values.errors import SettingsError

__all__ = ["Confidence", "Markov"]

_Linear = tuple[Tensor, Tensor | None]
"""Weight and bias."""


class Markov:
    """A low-rank table of what follows each token, which the state may gate, or a memory of the tokens in front.

    Args:
        before: of the token in front # [vocabulary, rank]
        after: of the token that follows # [words, rank]
        gate: weight and bias of the gate, which reads the state and ``before`` # [rank, hidden + rank], [rank]
        cell: weight and bias of a recurrent cell, which reads its memory, ``before`` and the state; it gives what it
            forgets, what it takes in and what it says # [3 * rank, 2 * rank + hidden], [3 * rank]
    """

    def __init__(self, before: Tensor, after: Weight, gate: _Linear | None, cell: _Linear | None) -> None:
        self._before, self._after, self._gate, self._cell = before, after, gate, cell

    @property
    def rank(self) -> int:
        """Numbers that are known of each token."""
        return int(self._before.shape[1])

    @classmethod
    def of(cls, weights: Weights, config: Mapping[str, Any], hidden: int) -> Markov | None:
        """Take it from a head; ``None`` where it has none. Raises `SettingsError` for a kind that is not known."""
        rank = whole_number(config, "markov_rank", weights.where, least=0, usual=0)
        kind = config.get("markov_head_type", "vanilla")
        if not rank:
            return None
        if kind not in ("vanilla", "gated", "rnn"):
            raise SettingsError(
                f"The head in {weights.where} cannot be run: its Markov head is of the kind {kind}, and known are "
                "vanilla, gated and rnn."
            )

        def linear(name: str, outer: int, inner: int) -> _Linear:
            return weights.get(f"markov_head.{name}.weight", outer, inner), weights.find(
                f"markov_head.{name}.bias", outer
            )

        gate = linear("gate_proj", rank, hidden + rank) if kind == "gated" else None
        cell = linear("joint_proj", 3 * rank, 2 * rank + hidden) if kind == "rnn" else None
        name = "markov_head.markov_w"
        before, after = weights.get(f"{name}1.weight", -1, rank), weights.matrix(f"{name}2.weight", -1, rank)
        return cls(before, after, gate, cell)

    def begin(self) -> Tensor:
        """The memory in front of a block # [1, rank]."""
        return self._before.new_zeros(1, self.rank)

    def read(self, tokens: Tensor) -> Tensor:
        """What is known of the tokens in front # [rows] -> [rows, rank]."""
        return embedding(tokens, self._before)

    def __call__(self, tokens: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the logits of a place, and the memory behind it.

        Args:
            tokens: in front # [rows]
            state: of the block in this place # [hidden]
            memory: behind the place before # [rows, rank]

        Returns:
            # [rows, words], [rows, rank]
        """
        read = self.read(tokens)
        beside = state.expand(len(read), -1)
        if self._gate is not None:
            read = read * product(torch.cat((beside, read), -1), *self._gate).sigmoid()
        elif self._cell is not None:
            kept, new, said = product(torch.cat((memory, read, beside), -1), *self._cell).chunk(3, -1)
            memory = torch.lerp(new.tanh(), memory, kept.sigmoid())
            read = said.tanh()
        return product(read, self._after), memory


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
