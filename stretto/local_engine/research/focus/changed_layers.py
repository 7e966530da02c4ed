"""Forward of a Llama-like model with custom attention, and with changed projections for some rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, silu

from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.products import product

Attend = Callable[[int, Tensor, Tensor, Tensor, int | None], Tensor]
"""Attention of one layer: returns the mixed values of its rows # [batch, rows, heads * head_dim].

Its arguments are the number of the layer, queries # [batch, rows, heads, head_dim] and keys # [batch, rows,
key_value_heads, head_dim] that are rotated to the positions of the rows, values # like the keys, and the layer's
sliding window.
"""


@dataclass(frozen=True, slots=True)
class ProjectionDelta:
    """Addition to a projection: a full matrix, or a product of two low-rank ones (Hu et al., arXiv:2106.09685).

    Attributes:
        outer: # [outputs, inputs], or with ``inner`` # [outputs, rank]
        inner: # [rank, inputs]
    """

    outer: Tensor
    inner: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """Return what it adds to the projection # [..., inputs] -> [..., outputs]."""
        return linear(rows if self.inner is None else linear(rows, self.inner), self.outer)


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Additions to the projections of one layer: query, key and value together, and output."""

    query_key_value: ProjectionDelta
    output: ProjectionDelta


def run(
    forward: LlamaForward,
    tokens: Tensor,
    positions: Tensor,
    attend: Attend,
    changes: Sequence[LayerChange] | None = None,
) -> Tensor:
    """Run the layers over rows.

    Args:
        forward: the model.
        tokens: ids # [batch, rows]
        positions: # [batch, rows]
        attend: attention of the rows.
        changes: additions to the projections of each layer, for all rows; ``None`` for the frozen model.

    Returns:
        normalised final states, for `LlamaForward.read_out` # [batch, rows, hidden]
    """
    heads, stored = forward.heads
    width = forward.head_width
    state = forward.read_in(tokens).to(forward.dtype)  # [batch, rows, hidden]
    cosine, sine = forward.rotation(positions, state.dtype)
    for number, layer in enumerate(forward.weights.layers):
        normed = layer.norm(state)
        projected = product(normed, layer.query_key_value, layer.query_key_value_bias)
        if changes is not None:
            projected = projected + changes[number].query_key_value(normed)
        split = projected.view(*tokens.shape, -1, width)  # [batch, rows, heads + 2 * key_value_heads, head_dim]
        rotating = split[:, :, : heads + stored]
        if layer.query_key_norm is not None:
            rotating = rms_norm(rotating, (width,), None, forward.epsilon) * layer.query_key_norm
        rotating = rotating * cosine + rotating.roll(width // 2, -1) * sine
        mixed = attend(
            number, rotating[:, :, :heads], rotating[:, :, heads:], split[:, :, heads + stored :], layer.window
        )
        written = product(mixed, layer.output, layer.output_bias)
        state = state + (written if changes is None else written + changes[number].output(mixed))
        gate, up = product(layer.feed_forward_norm(state), layer.gate_up).chunk(2, dim=-1)
        state = state + product(silu(gate) * up, layer.down)
    return forward.weights.norm(state)


def rotated(forward: LlamaForward, keys: Tensor, by: Tensor) -> Tensor:
    """Rotate keys from their positions to others.

    The result equals the unrotated keys rotated to the new positions (Su et al., arXiv:2104.09864).

    Args:
        forward: the model.
        keys: # [..., slots, key_value_heads, head_dim]
        by: number of positions to move by, negative for backwards # [..., slots]
    """
    angles = by[..., None, None] * forward.family.frequencies.to(by.device)  # [..., slots, 1, head_dim / 2]
    cosine, sine = angles.cos(), angles.sin()
    first, second = keys.float().chunk(2, dim=-1)
    moved = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
    return moved.to(keys.dtype)


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None, *, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute grouped-query attention and the logarithm of its normaliser.

    Args:
        queries: # [batch, rows, heads, head_dim]
        keys: # [batch, slots, key_value_heads, head_dim]
        values: # [batch, slots, key_value_heads, head_dim]
        visible: whether each row sees each slot, at least one; ``None`` for all # [batch or 1, rows, slots]
        bias: added to the scores # [rows, slots]

    Returns:
        the mixed values # [batch, rows, heads, head_dim], and the log-sum-exp of the scores # [batch, rows, heads]
    """
    batch, rows, heads, width = queries.shape
    stored = keys.shape[2]
    grouped = queries.view(batch, rows, stored, heads // stored, width).permute(0, 2, 3, 1, 4).float()
    scores = grouped @ keys.permute(0, 2, 3, 1)[:, :, None].float() * width**-0.5  # [batch, stored, group, rows, slots]
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None, None], -torch.inf)
    sums = scores.logsumexp(-1)
    mixed = (scores - sums[..., None]).exp() @ values.permute(0, 2, 1, 3)[:, :, None].float()
    mixed = mixed.permute(0, 3, 1, 2, 4).reshape(batch, rows, heads, width).to(queries.dtype)
    return mixed, sums.permute(0, 3, 1, 2).reshape(batch, rows, heads)


def attention_of_one(queries: Tensor, past: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> Tensor:
    """Compute the attention of one row to the slots of a cache and to itself.

    The cache is read in place: copying the chunks of a long document for each token took most of the time.

    Args:
        queries: # [batch, 1, heads, head_dim]
        past: keys and values before it, with any strides # each [batch, slots, key_value_heads, head_dim]
        keys: keys of the row # [batch, 1, key_value_heads, head_dim]
        values: values of the row # [batch, 1, key_value_heads, head_dim]

    Returns:
        the mixed values # [batch, 1, heads, head_dim]
    """
    batch, _, heads, width = queries.shape
    stored = keys.shape[2]
    scaled = queries.view(batch, stored, heads // stored, width) * width**-0.5
    mixed = []
    for head in range(stored):
        row = scaled[:, head]  # [batch, group, head_dim]
        before = torch.bmm(row, past[0][:, :, head].transpose(1, 2))  # [batch, group, slots]
        itself = (row * keys[:, :, head]).sum(-1, keepdim=True)  # [batch, group, 1]
        shares = torch.cat((before, itself), -1).float().softmax(-1).to(queries.dtype)
        mixed.append(torch.bmm(shares[..., :-1], past[1][:, :, head]) + shares[..., -1:] * values[:, :, head])
    return torch.stack(mixed, 1).view(batch, 1, heads, width)
