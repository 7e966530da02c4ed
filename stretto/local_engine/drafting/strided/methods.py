"""The decoding method of this folder. What needs torch is imported when a drafter is made."""

from __future__ import annotations

from pathlib import Path

from stretto.errors import SettingsError
from stretto.local_engine.drafting.method import DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.strided.drafter import Strided
from stretto.local_engine.drafting.strided.strided_options import FOLDER, StridedOptions, own_masks
from stretto.local_engine.model.adapter_files import LOW_RANK_CONFIG

__all__ = ["METHODS"]


def _strided(equipment: DraftEquipment) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Strided decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.drafting.strided.adapter import attach  # noqa: PLC0415 - torch

    options = StridedOptions(**equipment.options.get("strided", {}))
    return Strided(attach(equipment.model, options))


def _missing(folder: Path | None, head: Path | None) -> str:  # noqa: ARG001 - heads are another method's
    if folder is not None and ((folder / FOLDER / LOW_RANK_CONFIG).is_file() or own_masks(folder) is not None):
        return ""
    return f" It needs an adapter beside the weights, {FOLDER}/{LOW_RANK_CONFIG}, or an I-DLM."


METHODS = {"strided": Method(_strided, missing=_missing, options=StridedOptions)}
