"""Rows whose tensors stay where they are, so that a recorded step finds each step's input in them."""

from __future__ import annotations

import torch
from torch import Tensor

from stretto.local_engine.model.cache import Rows

__all__ = ["blank_rows", "fill_rows", "sample_rows"]


def blank_rows(batch: int, count: int, slots: int, device: torch.device) -> Rows:
    """Make rows that see all slots which the mask lets them see; several rows of a sequence are a tree."""
    tokens = torch.zeros(batch, count, dtype=torch.long, device=device)
    if count == 1:
        return Rows(tokens, torch.zeros_like(tokens), slots)
    seen = torch.zeros(batch, count, count, dtype=torch.bool, device=device)
    return Rows(tokens, torch.zeros_like(tokens), slots, slots=torch.zeros_like(tokens), ancestry=seen)


def fill_rows(still: Rows, rows: Rows) -> None:
    """Copy rows to where a recorded step reads them, and fill up with rows that see only themselves.

    Those stand in the slots behind the others of their sequence, where nothing looks until they are written again;
    and in sequences behind those that there are.
    """
    (batch, count), (_, size) = rows.tokens.shape, still.tokens.shape
    filled_up = rows.tokens.shape != still.tokens.shape
    if filled_up:
        still.tokens.zero_()
    still.tokens[:batch, :count].copy_(rows.tokens)
    if still.slots is None or still.ancestry is None:
        still.positions[batch:].zero_()
        still.positions[:batch].copy_(rows.positions)
        return
    # Rows that follow each other, without a tree, descend from all before them.
    first = rows.positions[:, :1] if rows.slots is None else rows.slots[:, :1]
    beside = torch.arange(size, device=first.device)
    still.slots[batch:].copy_(beside)
    still.slots[:batch].copy_(first + beside)
    if filled_up:
        still.positions.copy_(still.slots)
    still.positions[:batch, :count].copy_(rows.positions)
    still.ancestry.copy_(torch.eye(size, dtype=torch.bool, device=first.device))
    still.ancestry[:batch, :count, :count].copy_(
        _chain(count, first.device) if rows.ancestry is None else rows.ancestry
    )


def sample_rows(batch: int, count: int, start: int, device: torch.device) -> Rows:
    """Make a step of some tokens: one row of each sequence, or a draft whose last node is a second child of the root.

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
