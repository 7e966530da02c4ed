"""Differences to add to a model's weights, in four bits, in a file with the fingerprint of these weights.

A model can be stored as changes of another one: ``"changes_of"`` in its ``config.json`` gives the path to the base,
relative to its own folder. That file lies next to the differences of the weights; everything else comes from the base.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from stretto.local_engine.model.adapters.adapter_files import (
    CHANGE_FILE,
    READING_FILE,
    fingerprint,
    read_tensors,
    write_tensors,
)
from stretto.values.errors import SettingsError

CHANGES_OF = "changes_of"

_GROUP = 32
_MOST = 7  # codes represent -7 to 7


def packed(numbers: Tensor, most: int = _MOST) -> tuple[Tensor, Tensor]:
    """Return codes, two per byte, and scales  # [groups, 16], [groups, 1].

    ``most``: largest integer, at most 7; smaller values are less accurate, and compress better.
    """
    flat = numbers.detach().float().flatten()
    groups = torch.cat((flat, flat.new_zeros(-len(flat) % _GROUP))).view(-1, _GROUP)
    scales = (groups.abs().amax(1, keepdim=True) / most).half()
    steps = torch.where(scales > 0, groups / scales.float(), 0.0)
    codes = (steps.round().clamp(-most, most) + _MOST).to(torch.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales


def unpacked(codes: Tensor, scales: Tensor) -> Tensor:
    """Return the numbers, flat; the last group is padded."""
    both = torch.stack((codes & 15, codes >> 4), dim=-1).view(len(codes), _GROUP)
    return ((both.float() - _MOST) * scales.float()).flatten()


def write_differences(path: Path, differences: Mapping[str, Tensor], base: str, most: int = 7) -> None:
    """Write what is added to each weight, by name, with the weights' fingerprint; ``most``: see `packed`."""
    kept: dict[str, Tensor] = {}
    for name, difference in differences.items():
        kept[f"{name}.codes"], kept[f"{name}.scales"] = packed(difference, most)
    write_tensors(path, kept, base)


def read_differences(path: Path, base: str, model: str, *, purpose: str, again: str) -> dict[str, Tensor]:
    """Read the flat differences for the weights with the fingerprint ``base``; arguments as in `read_tensors`.

    Raises `SettingsError` for a file of other weights.
    """
    tensors, _ = read_tensors(path, base, model, purpose=purpose, again=again)
    names = [name.removesuffix(".codes") for name in tensors if name.endswith(".codes")]
    return {name: unpacked(tensors[f"{name}.codes"], tensors[f"{name}.scales"]) for name in names}


@torch.no_grad()
def added(weights: Mapping[str, Tensor], differences: Mapping[str, Tensor]) -> None:
    """Add the differences to their weights, in place. One with fewer numbers changes only the first rows."""
    for name, weight in weights.items():
        if (difference := differences.get(name)) is not None:
            flat = weight.view(-1)[: len(difference)]
            flat.copy_((flat.float() + difference[: len(flat)].to(weight.device)).to(weight.dtype))


def read_reading(path: Path, base: str, model: str) -> dict[str, Tensor]:
    """Read the flat differences for the weights with the fingerprint ``base``. Raises `SettingsError`."""
    again = "Remove it, or train it again with: python -m recipes.reading.train"
    return read_differences(path, base, model, purpose="reading documents", again=again)


def reading_change(folder: Path | None, model: str) -> Callable[[Mapping[str, Tensor]], None] | None:
    """Return a function that adds a folder's adapter to the weights, for `load_model`; ``None`` without an adapter.

    Raises `SettingsError` for an adapter of other weights.
    """
    if folder is None or not (folder / READING_FILE).is_file():
        return None
    differences = read_reading(folder / READING_FILE, fingerprint(folder), model)
    return lambda weights: added(weights, differences)


def base_of(folder: Path | None) -> Path | None:
    """Return the folder of the model that this one changes; ``None`` for one that is stored as a whole.

    Raises `SettingsError` if the base is missing.
    """
    if folder is None or not (folder / CHANGE_FILE).is_file():
        return None
    config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = config.get(CHANGES_OF) if isinstance(config, dict) else None
    if not isinstance(named, str):
        return None
    base = (folder / named).resolve()
    if not (base / "model.safetensors").is_file():
        raise SettingsError(
            f"The model in {str(folder)!r} is kept as changes of the one in {str(base)!r}, and that has no "
            f"model.safetensors. Copy both, or name the right folder as {CHANGES_OF} in config.json."
        )
    return base


def changed_weights(folder: Path, base: Path, model: str) -> dict[str, Tensor]:
    """Return the weights of a model by name, in float32. Raises `SettingsError` for changes of another base."""
    weights = {name: tensor.float() for name, tensor in load_file(base / "model.safetensors").items()}
    again = "Train it again with: python -m recipes.denoise.train"
    differences = read_differences(folder / CHANGE_FILE, fingerprint(base), model, purpose="these weights", again=again)
    added(weights, differences)
    return weights
