"""What a route is forecast to cost, against the budget of its request."""

from __future__ import annotations

from stretto.answer import Usage
from stretto.errors import BudgetExceededError
from stretto.route import Forecast
from stretto.router.case import Case

__all__ = ["ALLOW_MORE", "over_budget", "priced", "unknown_price"]

ALLOW_MORE = "Allow more, or ask for a shorter answer with max_tokens."


def priced(case: Case, forecast: Forecast) -> Forecast:
    """The forecast with its cost, where the price of the model and what is generated are known."""
    if case.prices is None or forecast.written is None:
        return forecast
    read = forecast.tokens - forecast.written
    usage = Usage(prompt_tokens=read, completion_tokens=forecast.written, calls=forecast.calls)
    listed = getattr(case.backend, "at_provider", True)  # as for what an answer cost
    cost = case.prices.expected(case.backend.name, usage, listed=listed)
    return forecast if cost is None else forecast.model_copy(update={"cost": round(cost, 6)})


def over_budget(case: Case, forecast: Forecast | None) -> str | None:
    """What the forecast says against the budget, as half a sentence; ``None`` where it fits or is not known."""
    budget = case.request.budget
    if forecast is None:
        return None
    if budget.max_cost is not None and forecast.cost is not None and forecast.cost > budget.max_cost:
        return f"it would cost about {forecast.cost:.3g} US dollars, and the budget has max_cost={budget.max_cost:g}"
    if budget.deadline_s is not None and forecast.seconds > budget.deadline_s:
        return f"it would take about {forecast.seconds:.1f} s, and the budget has deadline_s={budget.deadline_s:g}"
    return None


def unknown_price(case: Case, straight: Forecast | None) -> BudgetExceededError | None:
    """The error for a budget of money that cannot be kept, because nobody knows what the model costs."""
    most = case.request.budget.max_cost
    if most is None or straight is None or straight.cost is not None:
        return None
    return BudgetExceededError(
        f"The budget of max_cost={most:g} US dollars cannot be kept: the price of {case.backend.name} is unknown. Give "
        "it in a file (setting prices), or limit max_tokens_total instead."
    )
