"""Rows in fixed tensors, from which a recorded step reads its input."""

from __future__ import annotations

import torch
from torch import Tensor

from stretto.local_engine.model.forward.rows import Rows

__all__ = ["blank_rows", "fill_rows", "sample_rows"]


def blank_rows(batch: int, count: int, slots: int, device: torch.device) -> Rows:
    """Make empty rows for a recorded step; several rows of a sequence are a tree."""
    tokens = torch.zeros(batch, count, dtype=torch.long, device=device)
    if count == 1:
        return Rows(tokens, torch.zeros_like(tokens), slots)
    seen = torch.zeros(batch, count, count, dtype=torch.bool, device=device)
    return Rows(tokens, torch.zeros_like(tokens), slots, slots=torch.zeros_like(tokens), ancestry=seen)


def fill_rows(fixed: Rows, rows: Rows) -> None:
    """Copy rows to where a recorded step reads them, and pad them with rows that see only themselves.

    Padding is written to the slots behind the other rows of a sequence, which are overwritten before a row sees them,
    and to sequences behind those that exist.
    """
    (batch, count), (_, size) = rows.tokens.shape, fixed.tokens.shape
    filled_up = rows.tokens.shape != fixed.tokens.shape
    if filled_up:
        fixed.tokens.zero_()
    fixed.tokens[:batch, :count].copy_(rows.tokens)
    if fixed.slots is None or fixed.ancestry is None:
        fixed.positions[batch:].zero_()
        fixed.positions[:batch].copy_(rows.positions)
        return
    # Rows that follow each other, without a tree, descend from all before them.
    first = rows.positions[:, :1] if rows.slots is None else rows.slots[:, :1]
    beside = torch.arange(size, device=first.device)
    fixed.slots[batch:].copy_(beside)
    fixed.slots[:batch].copy_(first + beside)
    if filled_up:
        fixed.positions.copy_(fixed.slots)
    fixed.positions[:batch, :count].copy_(rows.positions)
    fixed.ancestry.copy_(torch.eye(size, dtype=torch.bool, device=first.device))
    fixed.ancestry[:batch, :count, :count].copy_(
        _chain(count, first.device) if rows.ancestry is None else rows.ancestry
    )


def sample_rows(batch: int, count: int, start: int, device: torch.device) -> Rows:
    """Make a step to try: one row of each sequence, or a draft whose last node is a second child of the root.

    ``start``: slot and position of the first row.
    """
    beside = torch.arange(count, device=device)
    tokens = (beside + start).expand(batch, count) + torch.arange(batch, device=device)[:, None]
    positions = (beside + start).expand(batch, count).clone()
    if count == 1:
        return Rows(tokens, positions, start + count)
    slots, seen = positions.clone(), _chain(count, device).expand(batch, count, count).clone()
    if count > 2:
        seen[:, -1, 1:-1] = False
        positions[:, -1] = start + 1
    return Rows(tokens, positions, start + count, slots=slots, ancestry=seen)


def _chain(count: int, device: torch.device) -> Tensor:
    return torch.ones(count, count, dtype=torch.bool, device=device).tril_()
