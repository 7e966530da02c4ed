"""What is known of remote models without a call: one table, by the beginnings of their names.

Context windows, output limits and cache minima are those of the providers' documentation. A row that
stands for several models holds the largest output limit among them: a provider refuses a larger number
itself. Unknown models get cautious values, and ``context_window=None`` where nobody can know it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

from stretto.backends.base import Capabilities, Prompt
from stretto.prompts.families import family_of

_SAMPLING = frozenset({"temperature", "top_p"})
_SAMPLING_AND_STOP = _SAMPLING | {"stop"}


@dataclass(frozen=True, slots=True)
class Known:
    """One row of the table.

    Attributes:
        window: tokens that prompt and answer may fill together.
        output: the most tokens of one answer.
        reasoning: the model takes an effort.
        json_schema: answers can be constrained to a JSON schema.
        logprobs: log-probabilities can be asked for.
        cached_from: prompt tokens from which a shared prefix is cached.
        refuses: parameters that are answered with a 400.
    """

    window: int
    output: int
    reasoning: bool = False
    json_schema: bool = True
    logprobs: bool = False
    cached_from: int = 1_024
    refuses: frozenset[str] = frozenset()


# Longest prefix wins. OpenAI's reasoning models take no sampling parameters and no stop sequences.
_OPENAI = {
    "gpt-6": Known(400_000, 400_000, reasoning=True, refuses=_SAMPLING_AND_STOP),
    "gpt-5": Known(400_000, 128_000, reasoning=True, refuses=_SAMPLING_AND_STOP),
    "gpt-5-chat": Known(128_000, 16_384, logprobs=True),
    "gpt-4.1": Known(1_047_576, 32_768, logprobs=True),
    "gpt-4o": Known(128_000, 16_384, logprobs=True),
    "gpt-4-turbo": Known(128_000, 4_096, json_schema=False, logprobs=True),
    "gpt-4": Known(8_192, 8_192, json_schema=False, logprobs=True),
    "gpt-3.5-turbo": Known(16_385, 4_096, json_schema=False, logprobs=True),
    "o1": Known(200_000, 100_000, reasoning=True, refuses=_SAMPLING_AND_STOP),
    "o3": Known(200_000, 100_000, reasoning=True, refuses=_SAMPLING_AND_STOP),
    "o4": Known(200_000, 100_000, reasoning=True, refuses=_SAMPLING_AND_STOP),
}
_ANTHROPIC = {
    "claude-": Known(200_000, 128_000, reasoning=True, cached_from=4_096, refuses=_SAMPLING),
    "claude-haiku-4": Known(200_000, 64_000, reasoning=True, cached_from=4_096),
    "claude-haiku-4-5": Known(200_000, 64_000, cached_from=4_096),
    "claude-sonnet-4": Known(200_000, 64_000, reasoning=True, cached_from=4_096),
    "claude-sonnet-4-5": Known(200_000, 64_000),
    "claude-sonnet-4-6": Known(200_000, 128_000, reasoning=True, cached_from=2_048),
    "claude-opus-4": Known(200_000, 128_000, reasoning=True, cached_from=4_096),
    "claude-opus-4-7": Known(200_000, 128_000, reasoning=True, cached_from=4_096, refuses=_SAMPLING),
    "claude-opus-4-8": Known(200_000, 128_000, reasoning=True, cached_from=4_096, refuses=_SAMPLING),
}
_BY_PROVIDER = {"openai": _OPENAI, "anthropic": _ANTHROPIC}
_UNKNOWN = Capabilities(parallel_slots=8)
_UNKNOWN_OUTPUT = 1_048_576  # tokens; no model writes more


def _row(table: dict[str, Known], model: str) -> Known | None:
    prefix = max((prefix for prefix in table if model.startswith(prefix)), key=len, default=None)
    return None if prefix is None else table[prefix]


def capabilities_of(provider: str, model: str) -> Capabilities:
    """Look up a model; ``reasoning`` means that it takes an effort."""
    known = _row(_BY_PROVIDER.get(provider, {}), model)
    if known is None:
        # Most servers that speak OpenAI's API have log-probabilities; the others refuse them with a message.
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
        prompt_cache_minimum=known.cached_from,
    )


def refused_by(model: str) -> frozenset[str]:
    """Parameters that a model does not take. Servers of other providers serve the same models: the name decides."""
    known = _row(_OPENAI | _ANTHROPIC, model)
    return frozenset() if known is None else known.refuses


def may_take_schema(provider: str, model: str) -> bool:
    """Whether a JSON schema is sent: to models that are known to keep to one, and to unknown ones, which may."""
    known = _row(_BY_PROVIDER.get(provider, {}), model)
    return known is None or known.json_schema


def bounded_output(provider: str, model: str, wanted: int | None) -> int | None:
    """Give the tokens to ask for: what is wanted, but no more than the model can write."""
    known = _row(_BY_PROVIDER.get(provider, {}), model)
    most = _UNKNOWN_OUTPUT if known is None else known.output
    return None if wanted is None else min(wanted, most)


def worth_caching(prompt: Prompt, capabilities: Capabilities) -> bool:
    """Whether what a prompt shares with others is as long as the provider's cache wants it."""
    least = capabilities.prompt_cache_minimum
    return least is not None and bool(prompt.shared) and _tokens_of(prompt.prefix) >= least


def _tokens_of(text: str) -> int:
    return math.ceil(len(text.encode()) / 3.5)


def estimate_tokens(prompt: Prompt) -> int:
    """Estimate the tokens of a prompt: 3.5 UTF-8 bytes each, and four for each message's frame.

    Tools and their calls count as they are written; what images and sounds take, only their models know.
    """
    size = sum(len(message.content.encode()) for message in prompt.messages)
    size += sum(len(json.dumps(each)) for each in prompt.tools)
    size += sum(len(json.dumps(each)) for message in prompt.messages for each in message.tool_calls)
    return math.ceil(size / 3.5) + 4 * len(prompt.messages)
