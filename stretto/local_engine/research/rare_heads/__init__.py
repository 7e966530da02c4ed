"""Published heads other than EAGLE-3 and MTP: P-EAGLE, DFlash, DSpark, Medusa, and the assistants of Gemma 4.

Measured: with Medusa trained for SmolLM2, `auto` takes 0.98 times as long as without, on two cores; for the pocket
model 1.07, on one (``benchmarks/results/trained_heads.md``). None of the published weights of the others have been run
here.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.research_registry import Offers

__all__ = ["OFFERS"]

OFFERS = Offers(heads=f"{__name__}.rare_kinds")
