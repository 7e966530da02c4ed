"""List prices of the package genai-prices, if installed: its latest release can know newer models than our file."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

from stretto.values.answer import Cost, Usage


@cache
def load() -> bool:
    """Import the package and its table, which takes 0.33 s. Return False if it is not installed."""
    if find_spec("genai_prices") is None:
        return False
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra

    get_snapshot()
    return True


def cost_by_package(model: str, names: Iterable[str], usages: Iterable[Usage]) -> Cost | None:
    """Return the cost of generations at current prices; ``None`` without the package, or for unknown models.

    Args:
        model: the model name, ``provider:model``.
        names: names under which the package may list the model. Prices that it guesses from other names are not used.
        usages: the usage of each generation.
    """
    if not load():
        return None
    import genai_prices  # noqa: PLC0415 - an extra

    provider, _, name = model.partition(":")
    usd = Decimal(0)
    for usage in usages:
        calls = max(1, usage.calls)  # for multiple calls, prices of long prompts apply by their mean size
        each = genai_prices.Usage(
            input_tokens=Decimal(usage.prompt_tokens) / calls,
            cache_read_tokens=Decimal(usage.cached_tokens) / calls,
            cache_write_tokens=Decimal(usage.cache_write_tokens) / calls,
            output_tokens=Decimal(usage.completion_tokens) / calls,
        )
        try:
            price = genai_prices.calc_price(each, name, provider_id=provider)
        except (LookupError, ValueError):  # an unknown model, or contradictory counts
            return None
        if price.model.id not in names:
            return None
        usd += price.total_price * calls
    return Cost(usd=float(usd), source=f"the list prices of genai-prices {version('genai-prices')}")
