"""What is added to the weights of a model that reads documents: differences in a file beside the weights.

The sum is another model, for prompts that show documents; all other prompts go to the weights as they are. A number
takes four bits: groups of 32 share a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from stretto.errors import SettingsError

__all__ = ["added", "read_reading", "write_reading"]

_GROUP = 32
_MOST = 7  # of -7 to 7


def write_reading(path: Path, differences: Mapping[str, Tensor], base: str) -> None:
    """Keep what is to be added to each weight, by its name, with the fingerprint of the weights."""
    kept: dict[str, Tensor] = {}
    for name, difference in differences.items():
        kept[f"{name}.codes"], kept[f"{name}.scales"] = _packed(difference.detach().float())
    new = path.with_suffix(".new")
    save_file(kept, new, metadata={"format": "pt", "base": base})
    new.replace(path)


def read_reading(path: Path, base: str, model: str) -> dict[str, Tensor]:
    """Read what is to be added to the weights with the fingerprint ``base``, flat. Raises `SettingsError`."""
    try:
        with safe_open(path, framework="pt") as file:
            notes: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise SettingsError(
            f"{path} is no adapter for reading documents: {error}. Remove it, or train it again."
        ) from error
    if notes.get("base") != base:
        raise SettingsError(
            f"{path} was trained on other weights of {model} (SHA-256 {notes.get('base', 'unknown')[:12]}) than those "
            f"in its folder ({base[:12]}). Remove it, or train it again with: python -m recipes.reading.train --fresh"
        )
    names = [name.removesuffix(".codes") for name in tensors if name.endswith(".codes")]
    return {name: _unpacked(tensors[f"{name}.codes"], tensors[f"{name}.scales"]) for name in names}


@torch.no_grad()
def added(weights: Mapping[str, Tensor], differences: Mapping[str, Tensor]) -> None:
    """Add the differences to the weights they belong to, in place."""
    for name, weight in weights.items():
        if (difference := differences.get(name)) is not None:
            flat = difference[: weight.numel()].to(weight.device)
            weight.copy_((weight.float() + flat.view(weight.shape)).to(weight.dtype))


def _packed(difference: Tensor) -> tuple[Tensor, Tensor]:
    """Codes, two to a byte, and scales  # [groups, 16], [groups, 1]."""
    flat = difference.flatten()
    groups = torch.cat((flat, flat.new_zeros(-len(flat) % _GROUP))).view(-1, _GROUP)
    scales = (groups.abs().amax(1, keepdim=True) / _MOST).half()
    steps = torch.where(scales > 0, groups / scales.float(), 0.0)
    codes = (steps.round().clamp(-_MOST, _MOST) + _MOST).to(torch.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales


def _unpacked(codes: Tensor, scales: Tensor) -> Tensor:
    """The numbers, one after the other; the last group is filled up."""
    both = torch.stack((codes & 15, codes >> 4), dim=-1).view(len(codes), _GROUP)
    return ((both.float() - _MOST) * scales.float()).flatten()
