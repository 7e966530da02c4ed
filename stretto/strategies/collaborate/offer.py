"""The price of ``collaborate``, told before a call is made."""

from __future__ import annotations

from stretto.route import Forecast
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.collaborate.options import DRAFTS, CollaborateOptions
from stretto.strategies.strategy_options import options_of

__all__ = ["offer_collaborate"]


def offer_collaborate(case: Case) -> Offer:
    """An offer that the router never chooses by itself, as if the main model wrote all proposals."""
    options = options_of(case.request, CollaborateOptions)
    number = (len(options.proposers) or 1) * (options.drafts or (DRAFTS if len(options.proposers) < 2 else 1))
    answer = case.answer_tokens
    total_s = seconds(case.speed, answer, calls=min(number, case.speed.concurrent_calls)) + seconds(case.speed, answer)
    read = (number + 1) * case.prompt_tokens + number * answer
    written = (number + 1) * answer
    forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=number + 1, written=written)
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
