"""Numbers of adapters in four bits: groups of 32 share a scale."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["packed", "unpacked"]

_GROUP = 32
_MOST = 7  # of -7 to 7


def packed(numbers: Tensor, most: int = _MOST) -> tuple[Tensor, Tensor]:
    """Codes, two to a byte, and scales  # [groups, 16], [groups, 1].

    ``most``: whole numbers up to this, of at most 7; fewer are less exact, and can be compressed better.
    """
    flat = numbers.detach().float().flatten()
    groups = torch.cat((flat, flat.new_zeros(-len(flat) % _GROUP))).view(-1, _GROUP)
    scales = (groups.abs().amax(1, keepdim=True) / most).half()
    steps = torch.where(scales > 0, groups / scales.float(), 0.0)
    codes = (steps.round().clamp(-most, most) + _MOST).to(torch.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales


def unpacked(codes: Tensor, scales: Tensor) -> Tensor:
    """The numbers, one after the other; the last group is filled up."""
    both = torch.stack((codes & 15, codes >> 4), dim=-1).view(len(codes), _GROUP)
    return ((both.float() - _MOST) * scales.float()).flatten()
