"""The forecast cost of a route, compared with the budget of its request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stretto.backends.base import Backend, Capabilities
from stretto.router.case import Case
from stretto.values.answer import Usage
from stretto.values.errors import BudgetExceededError
from stretto.values.request import Preference
from stretto.values.route import Forecast

ALLOW_MORE = "Allow more, or ask for a shorter answer with max_tokens."


BALANCED = 4_000  # tokens worth waiting for a first text if the caller has no preference


def priced(case: Case, forecast: Forecast) -> Forecast:
    """Return the forecast with its cost, if the price of the model and the generated tokens are known.

    A strategy that asks multiple models sets the cost itself; without ``written``, a cost it leaves out stays unknown.
    """
    if forecast.written is None or forecast.cost is not None:
        return forecast
    read = forecast.tokens - forecast.written
    whole = read >= forecast.calls * case.prompt_tokens  # each call reads all of the request
    cached = forecast.cached or (from_cache(case, case.prompt_tokens, forecast.calls) if whole else 0)
    cost = cost_of(case, case.backend, read=read, written=forecast.written, calls=forecast.calls, cached=cached)
    if cached:  # the others wait for the first text
        seconds = round(forecast.seconds + case.speed.first_of(1), 2)
        forecast = forecast.model_copy(update={"cached": cached, "seconds": seconds})
    return forecast if cost is None else forecast.model_copy(update={"cost": cost})


def from_cache(case: Case, shared: int, calls: int) -> int:
    """Return how many prompt tokens calls after the first read from the provider's cache, if they wait for it.

    ``shared``: tokens of the prefix shared by all calls.
    """
    if calls <= 1 or shared < least_shared(case.request.preference, case.backend.capabilities):
        return 0
    return (calls - 1) * shared


def cost_of(case: Case, backend: Backend, *, read: int, written: int, calls: int, cached: int = 0) -> float | None:
    """Return the US dollars for so many tokens of one model; ``None`` if its price is unknown."""
    if case.prices is None:
        return None
    usage = Usage(prompt_tokens=read, completion_tokens=written, cached_tokens=cached, calls=calls)
    listed = getattr(backend, "at_provider", True)  # as for the cost of an answer
    cost = case.prices.expected(backend.name, usage, listed=listed)
    return None if cost is None else round(cost, 6)


def sum_of(costs: Sequence[float | None]) -> float | None:
    """Return the sum of multiple models' costs; ``None`` if one of them is unknown."""
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 6) if len(known) == len(costs) else None


def over_budget(case: Case, forecast: Forecast | None) -> str | None:
    """Return how the forecast exceeds the budget, as half a sentence; ``None`` if it fits or is unknown."""
    budget = case.request.budget
    if forecast is None:
        return None
    if budget.max_cost is not None and forecast.cost is not None and forecast.cost > budget.max_cost:
        return f"it would cost about {forecast.cost:.3g} US dollars, and the budget has max_cost={budget.max_cost:g}"
    if budget.deadline_s is not None and forecast.seconds > budget.deadline_s:
        return f"it would take about {forecast.seconds:.1f} s, and the budget has deadline_s={budget.deadline_s:g}"
    return None


def unknown_price(case: Case, straight: Forecast | None) -> BudgetExceededError | None:
    """Return the error for a budget of money that cannot be kept because the price of the model is unknown."""
    most = case.request.budget.max_cost
    if most is None or straight is None or straight.cost is not None:
        return None
    return price_needed(most, case.backend.name)


def price_needed(most: float, model: str) -> BudgetExceededError:
    """Make the error for a budget of money and a model whose price is unknown."""
    return BudgetExceededError(
        f"The budget of max_cost={most:g} US dollars cannot be kept: the price of {model} is unknown. Give it in a "
        "file (setting prices), or limit max_tokens_total instead."
    )


def least_shared(preference: Preference, capabilities: Capabilities) -> float:
    """Return how many tokens of a shared prefix make calls wait for the first one; infinite if none waits.

    A cache contains a prefix once the first answer to it has begun. Until then the others would pay for all of it;
    waiting takes as long as the first text.
    """
    least = capabilities.prompt_cache_minimum
    if least is None or preference == "fastest":
        return math.inf
    return least if preference == "careful" else max(least, BALANCED)
