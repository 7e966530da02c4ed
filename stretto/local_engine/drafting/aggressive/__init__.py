"""Aggressive decoding: an answer that is a changed copy of a given text is drafted from that text.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.drafting.aggressive.aggressive import Aggressive
from stretto.local_engine.drafting.method import DraftEquipment, Method

__all__ = ["METHODS"]


def _aggressive(equipment: DraftEquipment) -> Aggressive:
    return Aggressive(equipment.expected)


METHODS = {"aggressive": Method(_aggressive, source=_aggressive)}
"""The method, which is also a source of drafts for ``auto``."""
