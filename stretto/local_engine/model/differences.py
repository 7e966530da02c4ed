"""What is to be added to a model's weights, in four bits, in a file that knows which weights they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from stretto.local_engine.model.adapter_files import read_tensors, write_tensors
from stretto.local_engine.model.four_bits import packed, unpacked

__all__ = ["added", "read_differences", "write_differences"]


def write_differences(path: Path, differences: Mapping[str, Tensor], base: str, most: int = 7) -> None:
    """Keep what is to be added to each weight, by its name, with the fingerprint of the weights; ``most``: `packed`."""
    kept: dict[str, Tensor] = {}
    for name, difference in differences.items():
        kept[f"{name}.codes"], kept[f"{name}.scales"] = packed(difference, most)
    write_tensors(path, kept, base)


def read_differences(path: Path, base: str, model: str, *, purpose: str, again: str) -> dict[str, Tensor]:
    """Read what is to be added to the weights with the fingerprint ``base``, flat; arguments as of `read_tensors`.

    Raises `SettingsError` for a file of other weights.
    """
    tensors, _ = read_tensors(path, base, model, purpose=purpose, again=again)
    names = [name.removesuffix(".codes") for name in tensors if name.endswith(".codes")]
    return {name: unpacked(tensors[f"{name}.codes"], tensors[f"{name}.scales"]) for name in names}


@torch.no_grad()
def added(weights: Mapping[str, Tensor], differences: Mapping[str, Tensor]) -> None:
    """Add the differences to the weights they belong to, in place. One for fewer numbers changes the first rows."""
    for name, weight in weights.items():
        if (difference := differences.get(name)) is not None:
            flat = weight.view(-1)[: len(difference)]
            flat.copy_((flat.float() + difference[: len(flat)].to(weight.device)).to(weight.dtype))
