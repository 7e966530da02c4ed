"""Turns the plans of some requests into the rows of one forward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.segments import segments
from stretto.local_engine.refining.refinement import Plan

__all__ = ["block_rows"]


def block_rows(plans: Sequence[Plan], device: torch.device) -> tuple[Rows, Tensor]:
    """Lay out the rows of each request so that they end together.

    Padding comes first; it is written to the slot behind all that its request sees.

    Returns:
        the rows, and which of them predict a target of any request: the last ones # [kept]
    """
    wanted = tuple(len(plan.targets) for plan in plans)
    width, most = max(len(plan.tokens) for plan in plans), max(wanted)
    padding = [width - len(plan.tokens) for plan in plans]
    real = [number * width + row for number, first in enumerate(padding) for row in range(first, width)]
    padded = any(padding)
    lines, ends = [slice(first, width) for first in padding], [plan.end for plan in plans]
    rows = Rows(
        _tensor([[0] * first + plan.tokens for first, plan in zip(padding, plans, strict=True)], device),
        _tensor([[plan.end] * first + plan.positions for first, plan in zip(padding, plans, strict=True)], device),
        max(ends) + padded,
        sees=_tensor([[1] * first + plan.sees for first, plan in zip(padding, plans, strict=True)], device),
        real=_tensor(real, device) if padded else None,
        wanted=wanted if min(wanted) < most else None,
        segments=segments(lines, ends) if len(plans) > 1 and device.type == "cpu" else None,
    )
    return rows, torch.arange(width - most, width, device=device)


def _tensor(numbers: Sequence[object], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
