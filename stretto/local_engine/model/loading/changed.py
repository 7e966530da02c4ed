"""A model that is kept as what it changes of another one: its ``config.json`` says where that is.

``"changes_of"`` names the folder of the base, from this folder on. Beside it lie the differences of the weights, and
all else is that of the base: weights and tokenizer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from stretto.local_engine.model.adapters.adapter_files import CHANGE_FILE, fingerprint
from stretto.local_engine.model.formats.differences import added, read_differences
from stretto.values.errors import SettingsError

__all__ = ["CHANGES_OF", "base_of", "changed_weights"]

CHANGES_OF = "changes_of"


def base_of(folder: Path | None) -> Path | None:
    """The folder of the model that this one changes; ``None`` for one that is kept as a whole.

    Raises `SettingsError` where the base is missing.
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
    """The weights of a model by name, in single precision. Raises `SettingsError` for another base's changes."""
    weights = {name: tensor.float() for name, tensor in load_file(base / "model.safetensors").items()}
    again = "Train it again with: python -m recipes.denoise.train"
    differences = read_differences(folder / CHANGE_FILE, fingerprint(base), model, purpose="these weights", again=again)
    added(weights, differences)
    return weights
