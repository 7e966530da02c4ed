"""The decoding method of this folder, which is a source of drafts for ``auto`` as well."""

from __future__ import annotations

from stretto.local_engine.drafting.aggressive.drafter import Aggressive
from stretto.local_engine.drafting.method import DraftEquipment, Method

__all__ = ["METHODS"]


def _aggressive(equipment: DraftEquipment) -> Aggressive:
    return Aggressive(equipment.expected)


METHODS = {"aggressive": Method(_aggressive, source=_aggressive)}
