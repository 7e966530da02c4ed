"""The decoding method of this folder. What needs torch is imported when a drafter is made."""

from __future__ import annotations

from stretto.errors import SettingsError
from stretto.local_engine.drafting.method import DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.strided.drafter import Strided
from stretto.local_engine.drafting.strided.strided_options import FOLDER, StridedOptions

__all__ = ["METHODS"]


def _strided(equipment: DraftEquipment) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Strided decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.drafting.strided.adapter import attach  # noqa: PLC0415 - torch

    options = StridedOptions(**equipment.options.get("strided", {}))
    return Strided(attach(equipment.model, options))


METHODS = {"strided": Method(_strided, adapter=f"{FOLDER}/adapter_config.json", options=StridedOptions)}
