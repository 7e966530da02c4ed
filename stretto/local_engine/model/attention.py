"""Attention of the lean forward: each row mixes the values of what it sees.

On a GPU, the kernel is chosen in `gpu_attention.py`. On a CPU, attention in half precision lays all
keys out anew for every product; turning them into float32 first takes less. Query heads that share a key head are rows
of one attention, so that nothing is repeated (Ainslie et al., arXiv:2305.13245).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from stretto.local_engine.model.cache import Rows
from stretto.local_engine.model.gpu_attention import aligned, attend

__all__ = ["Attention", "Plan", "unpack"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How the rows of one forward are attended to, the same in all its layers.

    Attributes:
        rows: of the forward.
        dtype: in which they are mixed.
        masks: by sliding window, for each segment, or for all rows together; ``None`` where all is seen
            # [segments][sequences, 1, group * rows, extent]
    """

    rows: Rows
    dtype: torch.dtype
    masks: dict[int | None, Sequence[Tensor | None]]


class Attention:
    """Grouped-query attention over cached keys and values.

    Args:
        stored: key-value heads.
        group: query heads for each of them.
        windows: of the layers; ``None`` is none.
    """

    def __init__(self, stored: int, group: int, windows: Collection[int | None]) -> None:
        self._stored = stored
        self._group = group
        self._windows = windows

    def plan(self, rows: Rows, dtype: torch.dtype) -> Plan:
        """Say what the rows of a forward see; ``dtype`` is the model's."""
        if rows.tokens.device.type == "cpu" and dtype in (torch.bfloat16, torch.float16):
            dtype = torch.float32
        return Plan(rows, dtype, {window: self._masks(rows, dtype, window) for window in self._windows})

    def mix(self, queries: Tensor, keys: Tensor, values: Tensor, plan: Plan, window: int | None) -> Tensor:
        """Mix the values for queries.

        Args:
            queries: # [batch, rows, heads, head_dim], or where padding is left out # [1, real, heads, head_dim]
            keys: # [batch, extent, key_value_heads, head_dim]
            values: # [batch, extent, key_value_heads, head_dim]
            plan: of this forward.
            window: of this layer.

        Returns:
            # [batch, rows, heads * head_dim], or # [1, real, heads * head_dim]
        """
        rows, masks, dtype, shape = plan.rows, plan.masks[window], queries.dtype, queries.shape[:2]
        real = rows.real if rows.segments is None else None  # segments have no padding
        flat = queries.flatten(0, 1) if real is None else unpack(queries, real, rows.tokens.numel())
        flat = flat.to(plan.dtype)
        if rows.segments is None:
            mixed = self._mix(flat, keys.to(plan.dtype), values.to(plan.dtype), masks[0])
        else:
            parts = [
                self._mix(flat[packed], keys[own, :extent].to(plan.dtype), values[own, :extent].to(plan.dtype), mask)
                for (own, _, packed, extent), mask in zip(rows.segments, masks, strict=True)
            ]
            mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
        if real is not None:
            mixed = mixed.index_select(0, real)
        return mixed.to(dtype).view(*shape, -1)

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Mix the values # [sequences, slots, key_value_heads, head_dim] for as many rows of each sequence.

        Args:
            queries: # [sequences * rows, heads, head_dim]
            keys: like the values.
            values: see there.
            mask: # [sequences, 1, group * rows, slots]

        Returns:
            # [sequences * rows, heads * head_dim]
        """
        sequences, stored, group, width = len(keys), self._stored, self._group, queries.shape[-1]
        queries = queries.view(sequences, -1, stored, group, width).permute(0, 2, 3, 1, 4)
        queries = queries.reshape(sequences, stored, -1, width)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # [sequences, key_value_heads, slots, head_dim]
        if queries.is_cuda:
            mixed = attend(queries, keys, values, mask)
        else:
            mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        mixed = mixed.view(sequences, stored, group, -1, width).permute(0, 3, 1, 2, 4)
        return mixed.reshape(-1, stored * group * width)

    def _masks(self, rows: Rows, dtype: torch.dtype, window: int | None) -> list[Tensor | None]:
        """Make the mask of each segment, repeated for each query head of a group."""
        if rows.segments is None:
            return [self._repeat(rows.mask(dtype, window))]
        if all(segment.lone and (window is None or segment.extent <= window) for segment in rows.segments):
            return [None] * len(rows.segments)
        mask = rows.mask(dtype, window)  # [batch, 1, rows, extent]
        return [self._repeat(mask[own, :, lines, :extent]) for own, lines, _, extent in rows.segments]

    def _repeat(self, mask: Tensor) -> Tensor:
        repeated = mask if mask.shape[2] == 1 else mask.repeat(1, 1, self._group, 1)
        return aligned(repeated) if repeated.is_cuda else repeated  # once for all layers


def unpack(packed: Tensor, real: Tensor, rows: int) -> Tensor:
    """Put real rows back among those of zeros # [1, real, ...] -> [rows, ...]."""
    return packed.new_zeros(rows, *packed.shape[2:]).index_copy_(0, real, packed[0])
