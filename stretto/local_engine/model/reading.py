"""What is added to the weights of a model that reads documents: thin matrices in a file beside the weights.

The sum is a separate model, for prompts that show documents; all other prompts go to the weights as they are. Hu et
al., "LoRA", arXiv:2106.09685.
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


def write_reading(path: Path, tensors: Mapping[str, Tensor], base: str) -> None:
    """Keep thin matrices, ``NAME.outer`` and ``NAME.inner`` for each weight, with the fingerprint of the weights."""
    kept = {name: tensor.detach().bfloat16().contiguous() for name, tensor in tensors.items()}
    new = path.with_suffix(".new")
    save_file(kept, new, metadata={"format": "pt", "base": base})
    new.replace(path)


def read_reading(path: Path, base: str, model: str) -> dict[str, Tensor]:
    """Read the thin matrices for the weights with the fingerprint ``base``. Raises `SettingsError`."""
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
    return tensors


@torch.no_grad()
def added(weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Add the products to the weights they belong to, in place."""
    for name, weight in weights.items():
        if (outer := tensors.get(f"{name}.outer")) is not None:
            product = outer.float() @ tensors[f"{name}.inner"].float()
            weight.copy_((weight.float() + product.to(weight.device)).to(weight.dtype))
