"""Heads that read the last state only: one small network for each token ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from stretto.errors import SettingsError
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.drafting.heads.words import words_of
from stretto.local_engine.model.layer_states import LAST
from stretto.local_engine.model.products import Weight, product

__all__ = ["Medusa"]

_Block = tuple[Weight, Tensor | None]


class Medusa:
    """Residual blocks behind the model's last state, for each token ahead: three published kinds.

    Head k, from 0 on, foresees the token after the one that the model itself chooses, and k further. Its first block
    computes ``s + silu(W x + b)`` from the model's last state s, the others the same from what came before; then follow
    logits.

    - Medusa (Cai et al., arXiv 2401.10774): x is s, and each head has logits of its own, ``K.N.weight``.
    - Blockwise decoding (Stern et al., arXiv 1811.03115): likewise, but without such a weight; the model's own last
      product stands there.
    - Hydra (Ankner et al., arXiv 2402.05109): x is s beside the input vectors of the tokens from the last committed one
      to the one in front, so the first weight of head k has ``2 + k`` times as many columns.

    Args:
        weights: ``K.B.linear.weight`` and ``K.B.linear.bias`` of block B of head K, and ``K.N.weight`` behind N blocks;
            ``d2t`` for a vocabulary of its own.
        config: ``medusa_num_heads`` and ``medusa_num_layers``.
        target: the model.
    """

    kind = "medusa"
    layers = (LAST,)

    def __init__(self, weights: Weights, config: Mapping[str, Any], target: Target) -> None:
        count, blocks = int(config.get("medusa_num_heads", 0)), int(config.get("medusa_num_layers", 1))
        if count < 1 or blocks < 1:
            raise SettingsError(
                f"The config.json in {weights.where} does not tell medusa_num_heads and medusa_num_layers."
            )
        self.target, self.foresees, self.dtype = target, count, weights.dtype
        self.words = words_of(weights, target)
        hidden = target.hidden
        self.grounded = weights.get("0.0.linear.weight", hidden, -1).shape[1] == 2 * hidden
        self._blocks: list[list[_Block]] = []
        self._last: list[Weight | None] = []
        for head in range(count):
            reads = [hidden * (2 + head if self.grounded else 1)] + [hidden] * (blocks - 1)
            self._blocks.append(
                [
                    (
                        weights.matrix(f"{head}.{block}.linear.weight", hidden, own),
                        weights.find(f"{head}.{block}.linear.bias", hidden),
                    )
                    for block, own in enumerate(reads)
                ]
            )
            words = -1 if self.words is None else len(self.words)
            last = weights.find(f"{head}.{blocks}.weight", words, hidden)
            self._last.append(None if last is None else weights.held(last))
        if self.words is not None and any(last is None for last in self._last):
            raise SettingsError(
                f"{weights.where} is no whole head: it has d2t, and some heads have no logits of their own."
            )

    def reader(self) -> _MedusaReader:
        """See `Head`."""
        return _MedusaReader(self)

    def logits(self, head: int, state: Tensor, beside: Tensor) -> Tensor:
        """What a head foresees.

        Args:
            head: its number.
            state: the model's last state # [hidden]
            beside: input vectors of the tokens behind it, where the head reads them # [rows, 1 + head, hidden]

        Returns:
            # [rows, words]
        """
        rows = state.expand(len(beside), -1)
        read = torch.cat((rows, beside.flatten(1)), -1) if self.grounded else rows
        for weight, bias in self._blocks[head]:
            rows = rows + silu(product(read, weight, bias))
            read = rows
        last = self._last[head]
        return self.target.read_out(rows) if last is None else product(rows, last)


class _MedusaReader:
    """Remembers the last state and the token behind it."""

    sure: Sequence[float] | None = None
    begins = 0

    def __init__(self, head: Medusa) -> None:
        self._head = head
        self._state: Tensor | None = None
        self._token = 0
        self._paths: list[list[int]] = []  # tokens from the last committed one to each node
        self._foreseen: dict[int, Tensor] = {}  # logits of heads that read no tokens # [1, words]

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """See `Reader`."""
        self._state, self._token = states[-1].to(self._head.dtype), tokens[-1]

    def first(self) -> Tensor:
        """See `Reader`."""
        self._paths, self._foreseen = [], {}
        return self._logits([[self._token]])

    def behind(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        """See `Reader`."""
        above = [self._paths[parent] if parent >= 0 else [self._token] for parent in parents]
        paths = [[*path, token] for path, token in zip(above, tokens, strict=True)]
        self._paths += paths
        return self._logits(paths) if len(paths[0]) <= self._head.foresees else None

    def _logits(self, paths: Sequence[Sequence[int]]) -> Tensor:
        """What follows paths of the same length."""
        head, number, state = self._head, len(paths[0]) - 1, self._state
        assert state is not None  # noqa: S101 - for the type checker: the prompt was read
        if head.grounded:
            vectors = head.target.embed(torch.tensor(paths, device=state.device)).to(state.dtype)
            return head.logits(number, state, vectors)
        if number not in self._foreseen:
            self._foreseen[number] = head.logits(number, state, state[None, None])
        return self._foreseen[number].expand(len(paths), -1)
