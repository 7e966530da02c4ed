"""The decoding method of this folder. The drafter is imported when one is made: torch takes seconds."""

from __future__ import annotations

from stretto.errors import SettingsError
from stretto.local_engine.drafting.big_little.big_little_options import BigLittleOptions
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.drafting.method import DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter

__all__ = ["METHODS"]


def _big_little(equipment: DraftEquipment) -> Drafter:
    from stretto.local_engine.drafting.big_little.drafter import BigLittle  # noqa: PLC0415 - torch

    if equipment.draft is None:
        raise SettingsError("The decoding method big_little needs a little model. Name one as draft=, or choose auto.")
    if equipment.model is not None:
        check_vocabulary(equipment.model, equipment.draft)
    return BigLittle(equipment.draft, BigLittleOptions(**equipment.options.get("big_little", {})))


METHODS = {"big_little": Method(_big_little, drafted=True, lossy=True, options=BigLittleOptions)}
