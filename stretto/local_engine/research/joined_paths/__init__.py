"""Joining of texts that were written in parallel, without reading them again: for the strategy `forking`.

Measured with `local:pocket-forking` on two busy cores: after the paths of an answer 12 tokens are read instead of 386
(``benchmarks/results/parallel.md``). No published model has been run here.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.research_registry import Offers

__all__ = ["OFFERS"]

OFFERS = Offers(joining=f"{__name__}.joined_prefill")
