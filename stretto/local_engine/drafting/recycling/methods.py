"""The decoding method of this folder."""

from __future__ import annotations

from stretto.local_engine.drafting.method import Method
from stretto.local_engine.drafting.recycling.drafter import TokenRecycling

__all__ = ["METHODS"]

METHODS = {"token_recycling": Method(lambda _: TokenRecycling())}
