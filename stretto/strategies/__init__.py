"""Strategies: how a request becomes one or several generations and one merged answer."""

from stretto.strategies.base import Strategy
from stretto.strategies.direct import Direct
from stretto.strategies.document import LongDocument
from stretto.strategies.items import Items
from stretto.strategies.skeleton import Skeleton

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (Direct(), Skeleton(), Items(), LongDocument())
}

__all__ = ["STRATEGIES", "Strategy"]
