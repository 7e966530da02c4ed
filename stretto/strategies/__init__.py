"""Strategies: how a request becomes one or more generations and one merged answer.

Private: not part of the public API, and may change at any time.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from stretto.foundation import plugins
from stretto.strategies.base import Strategy
from stretto.strategies.cascade import Cascade
from stretto.strategies.collaborate import Collaborate
from stretto.strategies.consensus import Consensus
from stretto.strategies.direct import Direct
from stretto.strategies.document import LongDocument
from stretto.strategies.fields import Fields
from stretto.strategies.items import Items
from stretto.strategies.rewrite import Rewrite
from stretto.strategies.skeleton import Skeleton


def _research() -> list[Strategy]:
    """Return the strategies of the folders of `research/`, found by name."""
    roof = f"{__name__}.research"
    folders = sorted(found.name for found in iter_modules(import_module(roof).__path__) if found.ispkg)
    return [import_module(f"{roof}.{folder}").STRATEGY for folder in folders]


_CHOSEN: tuple[Strategy, ...] = (Direct(), Skeleton(), Items(), Fields(), LongDocument(), Rewrite())
_NAMED: tuple[Strategy, ...] = (Cascade(), Consensus(), Collaborate())

STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in (*_CHOSEN, *_NAMED, *_research())}


def own_instances() -> dict[str, Strategy]:
    """Return new instances of the library's strategies, so that clients share nothing kept about documents."""
    return {name: type(strategy)() for name, strategy in STRATEGIES.items()}


@cache
def plugin_strategies() -> Mapping[str, Strategy]:
    """Return other packages' strategies by name: an entry point is one, or a class that makes one without arguments."""
    loaded = plugins.load_all("strategies", STRATEGIES).items()
    return {name: each() if isinstance(each, type) else each for name, each in loaded}


__all__ = ["STRATEGIES", "Strategy", "own_instances", "plugin_strategies"]
