"""The price of ``consensus``, told before a call is made."""

from __future__ import annotations

import math

from stretto.route import Forecast
from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.consensus.options import JUDGE_TOKENS, ConsensusOptions
from stretto.strategies.strategy_options import options_of

__all__ = ["offer_consensus"]


def offer_consensus(case: Case) -> Offer:
    """An offer that the router never chooses by itself, with what all samples cost: early ends make it less."""
    options = options_of(case.request, ConsensusOptions)
    samples, at_once = options.samples, min(options.samples, case.speed.concurrent_calls)
    total_s = math.ceil(samples / at_once) * seconds(case.speed, case.answer_tokens, calls=at_once)
    written, read = samples * case.answer_tokens, samples * case.prompt_tokens
    forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=samples, written=written)
    if options.judge is not None:  # it reads all samples, where they are too long to be voted on
        judge, judged = case.backends.get(options.judge, case.backend), case.prompt_tokens + written
        costs = [
            cost_of(case, case.backend, read=read, written=written, calls=samples),
            cost_of(case, judge, read=judged, written=JUDGE_TOKENS, calls=1),
        ]
        tokens = forecast.tokens + judged + JUDGE_TOKENS
        total_s += seconds(case.speed, JUDGE_TOKENS)
        forecast = Forecast(seconds=round(total_s, 2), tokens=tokens, calls=samples + 1, cost=sum_of(costs))
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
