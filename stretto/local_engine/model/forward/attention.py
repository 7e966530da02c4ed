"""Grouped-query attention of the lean forward.

On a GPU, `gpu_attention.py` chooses the kernel. On a CPU, attention in half precision lays out all keys again for every
product, so converting them to float32 first is faster. Query heads that share a key head are rows of one attention
call, so no key is repeated (Ainslie et al., arXiv:2305.13245).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from stretto.local_engine.model.forward.gpu_attention import aligned, attend
from stretto.local_engine.model.forward.rows import Rows


@dataclass(frozen=True, slots=True)
class Plan:
    """The masks of one forward, the same in all its layers.

    Attributes:
        rows: of the forward.
        dtype: in which attention is computed.
        masks: by sliding window, for each segment, or for all rows together; ``None`` if nothing is masked
            # [segments][sequences, 1, num_kv_groups * rows, kv_len]
    """

    rows: Rows
    dtype: torch.dtype
    masks: dict[int | None, Sequence[Tensor | None]]


class Attention:
    """Grouped-query attention over cached keys and values.

    Args:
        num_kv_heads: key-value heads.
        num_kv_groups: query heads for each of them.
        windows: sliding window of each layer; ``None`` for a layer without one.
    """

    def __init__(self, num_kv_heads: int, num_kv_groups: int, windows: Collection[int | None]) -> None:
        self._num_kv_heads = num_kv_heads
        self._num_kv_groups = num_kv_groups
        self._windows = windows

    def plan(self, rows: Rows, dtype: torch.dtype) -> Plan:
        """Create the masks of a forward; ``dtype`` is the model's."""
        if rows.tokens.device.type == "cpu" and dtype in (torch.bfloat16, torch.float16):
            dtype = torch.float32
        return Plan(rows, dtype, {window: self._masks(rows, dtype, window) for window in self._windows})

    def mix(self, queries: Tensor, keys: Tensor, values: Tensor, plan: Plan, window: int | None) -> Tensor:
        """Attend over cached keys and values.

        Args:
            queries: # [batch, rows, heads, head_dim], or without padding # [1, real, heads, head_dim]
            keys: # [batch, kv_len, num_kv_heads, head_dim]
            values: # [batch, kv_len, num_kv_heads, head_dim]
            plan: of this forward.
            window: of this layer.

        Returns:
            # [batch, rows, heads * head_dim], or # [1, real, heads * head_dim]
        """
        rows, masks, dtype, shape = plan.rows, plan.masks[window], queries.dtype, queries.shape[:2]
        real = rows.real if rows.segments is None else None  # segments contain no padding
        flat = queries.flatten(0, 1) if real is None else unpack(queries, real, rows.tokens.numel())
        flat = flat.to(plan.dtype)
        if rows.segments is None:
            mixed = self._mix(flat, keys.to(plan.dtype), values.to(plan.dtype), masks[0])
        else:
            parts = [
                self._mix(flat[packed], keys[own, :kv_len].to(plan.dtype), values[own, :kv_len].to(plan.dtype), mask)
                for (own, _, packed, kv_len), mask in zip(rows.segments, masks, strict=True)
            ]
            mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
        if real is not None:
            mixed = mixed.index_select(0, real)
        return mixed.to(dtype).view(*shape, -1)

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend with the same number of rows for each sequence.

        Args:
            queries: # [sequences * rows, heads, head_dim]
            keys: # [sequences, slots, num_kv_heads, head_dim]
            values: like the keys.
            mask: # [sequences, 1, num_kv_groups * rows, slots]

        Returns:
            # [sequences * rows, heads * head_dim]
        """
        sequences, num_kv_heads, num_kv_groups, head_dim = (
            len(keys),
            self._num_kv_heads,
            self._num_kv_groups,
            queries.shape[-1],
        )
        queries = queries.view(sequences, -1, num_kv_heads, num_kv_groups, head_dim).permute(0, 2, 3, 1, 4)
        queries = queries.reshape(sequences, num_kv_heads, -1, head_dim)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # [sequences, num_kv_heads, slots, head_dim]
        if queries.is_cuda:
            mixed = attend(queries, keys, values, mask)
        else:
            mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        mixed = mixed.view(sequences, num_kv_heads, num_kv_groups, -1, head_dim).permute(0, 3, 1, 2, 4)
        return mixed.reshape(-1, num_kv_heads * num_kv_groups * head_dim)

    def _masks(self, rows: Rows, dtype: torch.dtype, window: int | None) -> list[Tensor | None]:
        """Create the mask of each segment, repeated for each query head of a group."""
        if rows.segments is None:
            return [self._repeat(rows.mask(dtype, window))]
        if all(segment.is_single and (window is None or segment.kv_len <= window) for segment in rows.segments):
            return [None] * len(rows.segments)
        mask = rows.mask(dtype, window)  # [batch, 1, rows, kv_len]
        return [self._repeat(mask[own, :, lines, :kv_len]) for own, lines, _, kv_len in rows.segments]

    def _repeat(self, mask: Tensor) -> Tensor:
        repeated = mask if mask.shape[2] == 1 else mask.repeat(1, 1, self._num_kv_groups, 1)
        return aligned(repeated) if repeated.is_cuda else repeated  # here, once for all layers


def unpack(packed: Tensor, real: Tensor, rows: int) -> Tensor:
    """Put real rows back between padding of zeros # [1, real, ...] -> [rows, ...]."""
    return packed.new_zeros(rows, *packed.shape[2:]).index_copy_(0, real, packed[0])
