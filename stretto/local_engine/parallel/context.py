"""The keys and values of one text over several processes: each holds every n-th slot, and all of the weights.

Each process attends to its own slots, and the parts are merged by the logarithms of their sums, which is exact
(`stretto.local_engine.long_context.star.merged`). Everything but attention is computed in every process. Rows that
follow each other need not be moved between processes once they are accepted, so drafts are chains, and sequences run
one after the other.

Acharya et al., arXiv:2411.17116, merge so in their second phase; Bhatia et al., arXiv:2507.07120, for decoding.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from stretto.local_engine.long_context.decoder import attention
from stretto.local_engine.long_context.star import merged
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.forward import CacheAdapter, TransformersForward
from stretto.local_engine.model.rows import Rows

__all__ = ["ContextForward", "own_slots"]

_NAME = "stretto_context"


def own_slots(slots: int, rank: int, processes: int) -> int:
    """How many of the first slots of a sequence a process holds."""
    return (slots - rank + processes - 1) // processes


class ContextForward(TransformersForward):
    """A whole model with its own slots of the key-value cache.

    Args:
        model: of transformers.
        alone: is taken as `TransformersForward` takes it; sequences run one after the other in any case.
    """

    def __init__(self, model: Any, *, alone: bool = True) -> None:  # noqa: ARG002 - as described
        super().__init__(model, alone=True)
        self._rank, self._processes = dist.get_rank(), dist.get_world_size()
        self._lines = self._positions = torch.empty(0, dtype=torch.long)
        AttentionInterface.register(_NAME, self._attend)
        AttentionMaskInterface.register(_NAME, _no_mask)
        self._config = model.config

    def _begin_alone(self, rows: Rows, cache: KeyValueCache, sequence: int) -> None:
        slots = rows.positions if rows.slots is None else rows.slots
        self._positions = rows.positions[0]
        self._lines = (slots[0] % self._processes == self._rank).nonzero()[:, 0]
        own = Rows(
            rows.tokens[:, self._lines],
            rows.positions[:, self._lines],
            own_slots(rows.kv_len, self._rank, self._processes),
            slots=slots[:, self._lines] // self._processes,
        )
        cache.begin_alone(own, sequence)

    def _run(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        own = self._config._attn_implementation  # with which the model alone is compared
        self._config._attn_implementation = _NAME
        try:
            return super()._run(rows, cache, keep)
        finally:
            self._config._attn_implementation = own

    def _adapter(self, cache: KeyValueCache, rows: Rows) -> CacheAdapter:
        return _OwnSlots(cache, rows, self._lines)

    def _attend(
        self,
        module: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,  # noqa: ARG002 - made here
        *,
        scaling: float | None = None,
        sliding_window: int | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Attend as transformers asks it # queries [1, heads, rows, head_dim] -> [1, rows, heads, head_dim]."""
        del module
        width = queries.shape[-1]
        asked = queries.transpose(1, 2)
        if scaling is not None:
            asked = asked * (scaling * width**0.5)  # `attention` divides by the root
        slots = torch.arange(keys.shape[2], device=keys.device) * self._processes + self._rank
        seen = slots <= self._positions[:, None]
        if sliding_window is not None:
            seen &= slots > self._positions[:, None] - (self._window or sliding_window)
        mixed, sums = attention(asked, keys.transpose(1, 2), values.transpose(1, 2), seen[None])
        part = torch.cat((mixed.float().nan_to_num(0.0), sums[..., None].float()), -1)  # no slot seen: not a number
        parts = [torch.empty_like(part) for _ in range(self._processes)]
        dist.all_gather(parts, part.contiguous())
        whole = merged([(each[..., :-1], each[..., -1]) for each in parts])
        return whole.to(queries.dtype), None


class _OwnSlots(CacheAdapter):
    """Stores the rows whose slots are of this process."""

    def __init__(self, cache: KeyValueCache, rows: Rows, lines: Tensor) -> None:
        super().__init__(cache, rows)
        self._lines = lines

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return super().update(key_states[:, :, self._lines], value_states[:, :, self._lines], layer_idx)


def _no_mask(*_args: Any, **_kwargs: Any) -> None:
    """What a row sees is decided where its attention is computed."""
