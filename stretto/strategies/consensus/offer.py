"""The price of ``consensus``, told before a call is made."""

from __future__ import annotations

import math

from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.consensus.options import ConsensusOptions
from stretto.strategies.strategy_options import options_of

__all__ = ["offer_consensus"]


def offer_consensus(case: Case) -> Offer:
    """An offer that the router never chooses by itself, with what all samples cost: early ends make it less."""
    options = options_of(case.request, ConsensusOptions)
    samples, at_once = options.samples, min(options.samples, case.speed.concurrent_calls)
    total_s = math.ceil(samples / at_once) * seconds(case.speed, case.answer_tokens, calls=at_once)
    written = samples * case.answer_tokens
    forecast = Forecast(
        seconds=round(total_s, 2), tokens=samples * case.prompt_tokens + written, calls=samples, written=written
    )
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
