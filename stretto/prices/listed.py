"""List prices of the package genai-prices, where it is installed: a newer release knows newer models than our file."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

from stretto.values.answer import Cost, Usage


@cache
def load() -> bool:
    """Import the package and its table, which takes a third of a second. False where it is not installed."""
    if find_spec("genai_prices") is None:
        return False
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra

    get_snapshot()
    return True


def cost_by_package(model: str, names: Iterable[str], usages: Iterable[Usage]) -> Cost | None:
    """What generations cost by the prices of today; ``None`` without the package, or where it does not know the model.

    Args:
        model: the model name, ``provider:model``.
        names: what the model may be called there. A price that it guesses from another name is not taken.
        usages: of each generation.
    """
    if not load():
        return None
    import genai_prices  # noqa: PLC0415 - an extra

    provider, _, name = model.partition(":")
    usd = Decimal(0)
    for usage in usages:
        calls = max(1, usage.calls)  # where several were added up, prices of long prompts hold by their mean size
        each = genai_prices.Usage(
            input_tokens=Decimal(usage.prompt_tokens) / calls,
            cache_read_tokens=Decimal(usage.cached_tokens) / calls,
            cache_write_tokens=Decimal(usage.cache_write_tokens) / calls,
            output_tokens=Decimal(usage.completion_tokens) / calls,
        )
        try:
            price = genai_prices.calc_price(each, name, provider_id=provider)
        except (LookupError, ValueError):  # an unknown model; counts that contradict each other
            return None
        if price.model.id not in names:
            return None
        usd += price.total_price * calls
    return Cost(usd=float(usd), source=f"the list prices of genai-prices {version('genai-prices')}")
