"""The cost of answers: by the caller's prices, else by the list prices of genai-prices or the package's file.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stretto.foundation.validation import read_table
from stretto.prices.listed import cost_by_package
from stretto.values.answer import Cost, Usage

__all__ = ["Price", "Prices", "Tier"]

_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
_MILLION = 1_000_000


class Tier(BaseModel):
    """Prices in US dollars per million tokens. Without ``cached`` or ``cache_write``, such tokens cost ``input``.

    Attributes:
        input: for prompt tokens.
        output: for generated tokens, reasoning included.
        cached: for prompt tokens read from the provider's cache.
        cache_write: for prompt tokens written to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)

    def of(self, usage: Usage) -> float:
        """Return the price of these tokens in US dollars."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        plain = max(0, usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens)
        read = plain * self.input + usage.cached_tokens * cached + usage.cache_write_tokens * written
        return (read + usage.completion_tokens * self.output) / _MILLION


class LongTier(Tier):
    """The prices of calls with long prompts.

    Attributes:
        above: prompt tokens of a call above which these prices apply.
    """

    above: int = Field(ge=1)


class Price(Tier):
    """The prices of one model.

    Attributes:
        long: the prices of calls with long prompts, where they differ.
    """

    long: LongTier | None = None

    def at(self, usage: Usage) -> Tier:
        """Return the prices for calls of this size: the mean size, if the usage adds up multiple calls."""
        each = usage.prompt_tokens / max(1, usage.calls)
        return self.long if self.long is not None and each > self.long.above else self


class _Listed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: date
    source: str
    models: Mapping[str, Price]


class Prices:
    """The list prices of providers, overridden by those of the caller.

    Args:
        own: a TOML file with ``as_of``, ``source`` and ``models``, in the format of the package's ``prices.toml``. Its
            prices apply to any server; list prices apply to calls to the provider itself.

    Raises `SettingsError` if the file cannot be read.
    """

    def __init__(self, own: Path | None = None) -> None:
        self._own = None if own is None else read_table(own, _Listed.model_validate, "prices", "docs/cost.md")
        self._rates: dict[tuple[str, bool, int], tuple[float, float, float] | None] = {}

    def cost(self, model: str, usages: Iterable[Usage], *, listed: bool = True) -> Cost | None:
        """Return the cost of generations; ``None`` if the price of the model is unknown.

        Args:
            model: the model name, ``provider:model``. Local models cost nothing.
            usages: the usage of each generation.
            listed: whether list prices apply, because calls go to the provider itself.
        """
        if model.startswith("local:"):
            return Cost(usd=0.0, source="it ran on this machine")
        usages, names = list(usages), (model, _DATED.sub("", model))
        cost = None if self._own is None else _by_table(self._own, names, usages)
        if cost is None and listed:
            plain = [name.partition(":")[2] for name in names]
            cost = cost_by_package(model, plain, usages) or _by_table(_list_prices(), names, usages)
        return cost

    def expected(self, model: str, usage: Usage, *, listed: bool = True) -> float | None:
        """Estimate what calls of this size would cost, in US dollars; ``None`` if the price of the model is unknown.

        Like `cost`, but fast: token prices are looked up once per model and order of magnitude of the prompt.
        """
        size = 1 << (usage.prompt_tokens // max(1, usage.calls)).bit_length()
        key = model, listed, size
        if key not in self._rates:
            read = self.cost(model, [Usage(prompt_tokens=size, calls=1)], listed=listed)
            kept = self.cost(model, [Usage(prompt_tokens=size, cached_tokens=size, calls=1)], listed=listed)
            both = self.cost(model, [Usage(prompt_tokens=size, completion_tokens=size, calls=1)], listed=listed)
            self._rates[key] = None
            if read is not None and both is not None and kept is not None:
                self._rates[key] = read.usd / size, (both.usd - read.usd) / size, kept.usd / size
        if (rates := self._rates[key]) is None:
            return None
        plain = usage.prompt_tokens - usage.cached_tokens
        return plain * rates[0] + usage.completion_tokens * rates[1] + usage.cached_tokens * rates[2]


def _by_table(table: _Listed, names: Sequence[str], usages: Sequence[Usage]) -> Cost | None:
    price = next((table.models[name] for name in names if name in table.models), None)
    if price is None:
        return None
    usd = sum(price.at(usage).of(usage) for usage in usages)
    return Cost(usd=usd, as_of=table.as_of, source=table.source)


@cache
def _list_prices() -> _Listed:
    text = files("stretto.prices").joinpath("prices.toml").read_text(encoding="utf-8")
    return _Listed.model_validate(tomllib.loads(text))
