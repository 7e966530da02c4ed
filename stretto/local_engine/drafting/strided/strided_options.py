"""What the method ``strided`` is called and given, without its heavy imports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto.errors import SettingsError
from stretto.foundation.arguments import shown
from stretto.local_engine.model.refined.formats import recognised

__all__ = ["FOLDER", "StridedOptions", "own_masks"]

FOLDER = "strided"
"""The adapter's folder, beside the weights that it was trained on."""


@dataclass(frozen=True, slots=True)
class StridedOptions:
    """Options of the method ``strided``.

    Attributes:
        stride: tokens of a step at most, with the one that the model chooses itself: one more than there are masks.
            ``None`` for as many as the adapter was trained for, or 4.
        mask: token id whose input vector the adapter was trained with; ``None`` for the one that its
            ``adapter_config.json`` names as ``mask_token_id``, or the tokenizer's mask token.
    """

    stride: int | None = None
    mask: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("stride", self.stride, 2), ("mask", self.mask, 0)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise SettingsError(f"{name}={shown(value)} cannot be used: it is a whole number of at least {least}.")


def own_masks(folder: Path) -> int | None:
    """Masks that a model in a folder reads by itself (I-DLM); ``None`` where it needs an adapter for that."""
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = recognised(config) if isinstance(config, dict) else None
    except (OSError, ValueError):
        return None  # loading the model tells what is wrong
    return found.masks if found is not None and found.masks else None
