"""The adapter for reading documents: differences in a file beside the weights, which are added to them.

The sum is another model, for prompts that show documents; all other prompts go to the weights as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from stretto.local_engine.model.adapter_files import READING_FILE, fingerprint, read_tensors, write_tensors
from stretto.local_engine.model.four_bits import packed, unpacked

__all__ = ["added", "read_reading", "reading_change", "write_reading"]


def write_reading(path: Path, differences: Mapping[str, Tensor], base: str) -> None:
    """Keep what is to be added to each weight, by its name, with the fingerprint of the weights."""
    kept: dict[str, Tensor] = {}
    for name, difference in differences.items():
        kept[f"{name}.codes"], kept[f"{name}.scales"] = packed(difference)
    write_tensors(path, kept, base)


def read_reading(path: Path, base: str, model: str) -> dict[str, Tensor]:
    """Read what is to be added to the weights with the fingerprint ``base``, flat. Raises `SettingsError`."""
    again = "Remove it, or train it again with: python -m recipes.reading.train"
    tensors, _ = read_tensors(path, base, model, purpose="reading documents", again=again)
    names = [name.removesuffix(".codes") for name in tensors if name.endswith(".codes")]
    return {name: unpacked(tensors[f"{name}.codes"], tensors[f"{name}.scales"]) for name in names}


def reading_change(folder: Path | None, model: str) -> Callable[[Mapping[str, Tensor]], None] | None:
    """A function that adds the adapter of a folder to the weights, for `load_model`; ``None`` without an adapter.

    Raises `SettingsError` for an adapter of other weights.
    """
    if folder is None or not (folder / READING_FILE).is_file():
        return None
    differences = read_reading(folder / READING_FILE, fingerprint(folder), model)
    return lambda weights: added(weights, differences)


@torch.no_grad()
def added(weights: Mapping[str, Tensor], differences: Mapping[str, Tensor]) -> None:
    """Add the differences to the weights they belong to, in place."""
    for name, weight in weights.items():
        if (difference := differences.get(name)) is not None:
            flat = difference[: weight.numel()].to(weight.device)
            weight.copy_((weight.float() + flat.view(weight.shape)).to(weight.dtype))
