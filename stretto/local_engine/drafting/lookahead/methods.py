"""The decoding methods of this folder."""

from __future__ import annotations

from stretto.local_engine.drafting.lookahead.jacobi import Jacobi
from stretto.local_engine.drafting.lookahead.lookahead import Lookahead
from stretto.local_engine.drafting.method import Method

__all__ = ["METHODS"]

METHODS = {"jacobi": Method(lambda _: Jacobi()), "lookahead": Method(lambda _: Lookahead())}
