"""Jacobi decoding and lookahead decoding: the model corrects a window of guesses, step by step.

Measured with the pocket model on two cores, in bfloat16 and float32: in all twelve rows `jacobi` takes 1.4 to 2.2 times
as long as one token at a time, and `lookahead` 2.0 to 7.2 (``benchmarks/results/decoding.md``).

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.drafting.method import Method
from stretto.local_engine.research.lookahead.lookahead import Jacobi, Lookahead
from stretto.local_engine.research_registry import Offers

__all__ = ["OFFERS"]

OFFERS = Offers(methods={"jacobi": Method(lambda _: Jacobi()), "lookahead": Method(lambda _: Lookahead())})
