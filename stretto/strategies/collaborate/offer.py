"""The price of ``collaborate``, told before a call is made."""

from __future__ import annotations

from stretto.route import Forecast
from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.collaborate.options import DRAFTS, CollaborateOptions
from stretto.strategies.strategy_options import options_of

__all__ = ["offer_collaborate"]


def offer_collaborate(case: Case) -> Offer:
    """An offer that the router never chooses by itself; as slow as if the main model wrote all, at each one's price."""
    options = options_of(case.request, CollaborateOptions)
    asked = [case.backends.get(each, case.backend) if isinstance(each, str) else each for each in options.proposers]
    asked = asked or [*case.backends.values()] or [case.backend]
    drafts = options.drafts or (DRAFTS if len(asked) == 1 else 1)
    number = len(asked) * drafts
    answer = case.answer_tokens
    total_s = seconds(case.speed, answer, calls=min(number, case.speed.concurrent_calls)) + seconds(case.speed, answer)
    read = (number + 1) * case.prompt_tokens + number * answer
    written = (number + 1) * answer
    aggregator = options.aggregator
    if isinstance(aggregator, str):
        aggregator = case.backends.get(aggregator, case.backend)
    costs = [
        cost_of(case, each, read=drafts * case.prompt_tokens, written=drafts * answer, calls=drafts) for each in asked
    ]
    costs.append(cost_of(case, aggregator, read=case.prompt_tokens + number * answer, written=answer, calls=1))
    forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=number + 1, cost=sum_of(costs))
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
