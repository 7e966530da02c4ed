"""Introspective strided decoding (I-DLM): mask rows predict the tokens after the next one.

It is here for the checkpoints that are published: whole models, and adapters beside Qwen3. Measured with the pocket
model and an adapter of its own on one core: 2.0 and 2.3 times the time of one token at a time, with 3 tokens a step
(``benchmarks/results/parallel.md``).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.drafting.method import DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG
from stretto.local_engine.research_registry import Offers, recognised
from stretto.values.errors import SettingsError

__all__ = ["FOLDER", "OFFERS", "StridedOptions", "own_masks"]

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
                raise SettingsError(
                    f"{name}={safe_repr(value)} cannot be used: it is a whole number of at least {least}."
                )


def own_masks(folder: Path) -> int | None:
    """Masks that a model in a folder reads by itself (I-DLM); ``None`` where it needs an adapter for that."""
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = recognised(config) if isinstance(config, dict) else None
    except (OSError, ValueError, RecursionError):
        return None  # loading the model tells what is wrong
    return found.masks if found is not None and found.masks else None


def _strided(equipment: DraftEquipment) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Strided decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.research.strided.mask_rows import attach  # noqa: PLC0415 - torch
    from stretto.local_engine.research.strided.strided_drafter import Strided  # noqa: PLC0415 - as above

    options = StridedOptions(**equipment.options.get("strided", {}))
    return Strided(attach(equipment.model, options))


def _missing(folder: Path | None, head: Path | None) -> str:  # noqa: ARG001 - heads are another method's
    if folder is not None and ((folder / FOLDER / LORA_CONFIG).is_file() or own_masks(folder) is not None):
        return ""
    return f" It needs an adapter beside the weights, {FOLDER}/{LORA_CONFIG}, or an I-DLM."


OFFERS = Offers(methods={"strided": Method(_strided, missing=_missing, options=StridedOptions)})
