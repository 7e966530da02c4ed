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
    written, read, calls = samples * case.answer_tokens, samples * case.prompt_tokens, samples
    if options.judge is not None:  # it reads all samples, where they are too long to be voted on
        read, calls = read + case.prompt_tokens + written, calls + 1
    forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=calls, written=written)
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
