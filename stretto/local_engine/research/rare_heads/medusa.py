"""Medusa heads, which read the last state only: one small network for each token ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import silu

from stretto.local_engine.drafting.heads.decoder import Weights, whole_number
from stretto.local_engine.drafting.heads.head_words import words_of
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.products import product
from stretto.local_engine.model.forward.rows import LAST

_MOST = 1000  # of heads, and of the blocks of one


class Medusa:
    """Residual blocks on top of the model's last state, for each token ahead (Cai et al., arXiv 2401.10774).

    Head k, from 0 on, predicts the token k + 1 places after the one that the model chooses itself. Each of its blocks
    adds ``silu(W s + b)`` to the state s, starting with the model's last one; then its output matrix gives the logits.

    Args:
        weights: ``K.B.linear.weight`` and ``K.B.linear.bias`` of block B of head K, and ``K.N.weight`` after N blocks;
            ``d2t`` for a separate vocabulary.
        config: ``medusa_num_heads`` and ``medusa_num_layers``.
        target: the model.
    """

    kind = "medusa"
    layers = (LAST,)

    def __init__(self, weights: Weights, config: Mapping[str, Any], target: Target) -> None:
        count = whole_number(config, "medusa_num_heads", weights.where, below=_MOST)
        blocks = whole_number(config, "medusa_num_layers", weights.where, below=_MOST, usual=1)
        self.foresees, self.dtype = count, weights.dtype
        self.words = words_of(weights, target)
        hidden, words = target.hidden, target.vocabulary if self.words is None else len(self.words)
        self._blocks = [
            [
                (
                    weights.matrix(f"{head}.{block}.linear.weight", hidden, hidden),
                    weights.find(f"{head}.{block}.linear.bias", hidden),
                )
                for block in range(blocks)
            ]
            for head in range(count)
        ]
        self._last = [weights.matrix(f"{head}.{blocks}.weight", words, hidden) for head in range(count)]

    def reader(self) -> _MedusaReader:
        return _MedusaReader(self)

    def logits(self, head: int, state: Tensor) -> Tensor:
        """Return the logits of a head, by its number and the model's last state # [1, hidden] -> [1, words]."""
        for weight, bias in self._blocks[head]:
            state = state + silu(product(state, weight, bias))
        return product(state, self._last[head])


class _MedusaReader:
    """Reader of one sequence, with the last state."""

    sure: Sequence[float] | None = None
    begins = 0

    def __init__(self, head: Medusa) -> None:
        self._head = head
        self._state: Tensor | None = None
        self._depths: list[int] = []  # of each node
        self._foreseen: dict[int, Tensor] = {}  # by depth # [1, words]

    def read(self, tokens: Sequence[int], states: Tensor) -> None:  # noqa: ARG002 - the protocol's arguments
        self._state = states[-1:].to(self._head.dtype)

    def first(self) -> Tensor:
        self._depths, self._foreseen = [], {}
        return self._logits(0)

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        depths = [1 + self._depths[parent] if parent >= 0 else 1 for parent in parents]
        self._depths += depths
        return self._logits(depths[0]).expand(len(tokens), -1) if depths[0] < self._head.foresees else None

    def _logits(self, depth: int) -> Tensor:
        """Return the logits after any path of this length # [1, words]."""
        assert self._state is not None  # noqa: S101 - for the type checker: the prompt was read
        if depth not in self._foreseen:
            self._foreseen[depth] = self._head.logits(depth, self._state)
        return self._foreseen[depth]
