"""Heads: small networks that draft from the hidden states of their model. One folder, which nothing else uses.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.drafting.heads.head_method import METHODS

__all__ = ["METHODS"]
