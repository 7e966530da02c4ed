"""Heads: small networks that draft from their model's hidden states. No other code depends on this folder.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.drafting.heads.head_method import METHODS

__all__ = ["METHODS"]
