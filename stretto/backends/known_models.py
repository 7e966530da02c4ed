"""What is known of remote models without a call: the rows of ``known_models.toml``, by model name prefix.

A caller's own rows, in the same form, take precedence.

Unknown models get cautious values, and ``context_window=None`` if nobody can know it.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from stretto.backends.base import Capabilities, ModelRequest
from stretto.foundation.validation import read_table
from stretto.prompts.catalogue import family_of

NO_ROWS: Rows = MappingProxyType({})
_UNKNOWN = Capabilities(concurrent_calls=8)
_UNKNOWN_OUTPUT = 1_048_576  # tokens; no model writes more
_CHARACTERS_PER_TOKEN = 4  # of English text


class Known(BaseModel):
    """One row of the table.

    Attributes:
        window: the most tokens of prompt and answer together.
        output: the most tokens of one answer.
        reasoning: whether the model accepts an effort.
        json_schema: whether answers can be constrained to a JSON schema.
        logprobs: whether log-probabilities can be requested.
        predictions: whether it accepts a text that the answer might resemble.
        cached_from: prompt tokens from which a shared prefix is cached.
        refuses: parameters that are rejected with a 400.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: int = Field(ge=1)
    output: int = Field(ge=1)
    reasoning: bool = False
    json_schema: bool = True
    logprobs: bool = False
    predictions: bool = False
    cached_from: int = Field(default=1_024, ge=0)
    refuses: frozenset[str] = frozenset()


Rows = Mapping[str, Mapping[str, Known]]
"""Rows by model name prefix, by provider."""

_ROWS = TypeAdapter(dict[str, dict[str, Known]])


@cache
def _by_provider() -> Rows:
    table = tomllib.loads(files("stretto.backends").joinpath("known_models.toml").read_text(encoding="utf-8"))
    return _ROWS.validate_python({name: rows for name, rows in table.items() if isinstance(rows, dict)})


def own_rows(file: Path) -> Rows:
    """Read a caller's rows from a TOML file, a table for each provider. Raises `SettingsError`."""
    return read_table(file, _ROWS.validate_python, "models", "docs/backends.md")


def _row(provider: str, model: str, own: Rows) -> Known | None:
    return _longest(own.get(provider, {}), model) or _longest(_by_provider().get(provider, {}), model)


def _longest(rows: Mapping[str, Known], model: str) -> Known | None:
    prefix = max((prefix for prefix in rows if model.startswith(prefix)), key=len, default=None)
    return None if prefix is None else rows[prefix]


def capabilities_of(provider: str, model: str, own: Rows = NO_ROWS) -> Capabilities:
    """Look up the capabilities of a model; ``reasoning`` means that it accepts an effort."""
    known = _row(provider, model, own)
    if known is None:
        # Most servers that speak OpenAI's API support log-probabilities; the others refuse them with a message.
        openai = provider == "openai"
        family = family_of(model)
        return replace(
            _UNKNOWN, logprobs=openai, names=openai, tools=True, media=True, choices=openai, prompt_family=family
        )
    return Capabilities(
        context_window=known.window,
        json_schema=known.json_schema,
        logprobs=known.logprobs,
        names=provider == "openai",
        tools=True,
        media=True,
        choices=provider == "openai",
        reasoning=known.reasoning,
        predictions=known.predictions,
        prompt_cache_minimum=known.cached_from,
    )


def refused_by(model: str, own: Rows = NO_ROWS) -> frozenset[str]:
    """Return the parameters that a model rejects. Other providers serve the same models, so the name decides."""
    known = _longest(_any(own), model) or _longest(_any(_by_provider()), model)
    return frozenset() if known is None else known.refuses


def _any(rows: Rows) -> Mapping[str, Known]:
    """Return the rows of all providers."""
    return {prefix: known for table in rows.values() for prefix, known in table.items()}


def may_take_schema(provider: str, model: str, own: Rows = NO_ROWS) -> bool:
    """Return whether to send a JSON schema: to models known to comply with one, and to unknown ones, which might."""
    known = _row(provider, model, own)
    return known is None or known.json_schema


def bounded_output(provider: str, model: str, wanted: int | None, own: Rows = NO_ROWS) -> int | None:
    """Return the token limit to request: what is wanted, but no more than the model can write."""
    known = _row(provider, model, own)
    most = _UNKNOWN_OUTPUT if known is None else known.output
    return None if wanted is None else min(wanted, most)


def worth_caching(prompt: ModelRequest, capabilities: Capabilities) -> bool:
    """Return whether the part of a prompt that others share is long enough for the provider's cache."""
    least = capabilities.prompt_cache_minimum
    return least is not None and bool(prompt.shared) and tokens_of(prompt.prefix) >= least


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text: 3.5 UTF-8 bytes each."""
    return math.ceil(len(text.encode()) / 3.5)


def estimate_tokens(prompt: ModelRequest) -> int:
    """Estimate the tokens of a prompt: 3.5 UTF-8 bytes each, and four for each message's frame.

    Tools and their calls count as text; how much images and audio take is known only to their models.
    """
    size = sum(len(message.content.encode()) for message in prompt.messages)
    size += sum(len(json.dumps(each)) for each in prompt.tools)
    size += sum(len(json.dumps(each)) for message in prompt.messages for each in message.tool_calls)
    return math.ceil(size / 3.5) + 4 * len(prompt.messages)


def typical_tokens(characters: int) -> int:
    """Return the typical tokens of a text of this length; `estimate_tokens` errs upwards instead."""
    return -(-characters // _CHARACTERS_PER_TOKEN)
