"""What is known of remote models without a call, by the beginning of their names.

Context windows and cache minima are those of the providers' documentation; unknown models get
cautious values, and ``context_window=None`` where nobody can know it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stretto.backends.base import Capabilities, Prompt


def _openai(window: int, *, reasoning: bool = False, json_schema: bool = True) -> Capabilities:
    return Capabilities(
        context_window=window,
        json_schema=json_schema,
        logprobs=not reasoning,
        names=True,
        reasoning=reasoning,
        prompt_cache_minimum=1_024,
    )


def _claude(window: int, cache_minimum: int, *, reasoning: bool = True) -> Capabilities:
    return Capabilities(
        context_window=window, json_schema=True, reasoning=reasoning, prompt_cache_minimum=cache_minimum
    )


# Longest prefix wins.
_OPENAI = {
    "gpt-6": _openai(400_000, reasoning=True),
    "gpt-5": _openai(400_000, reasoning=True),
    "gpt-5-chat": _openai(128_000),
    "gpt-4.1": _openai(1_047_576),
    "gpt-4o": _openai(128_000),
    "gpt-4-turbo": _openai(128_000, json_schema=False),
    "gpt-4": _openai(8_192, json_schema=False),
    "gpt-3.5-turbo": _openai(16_385, json_schema=False),
    "o1": _openai(200_000, reasoning=True),
    "o3": _openai(200_000, reasoning=True),
    "o4": _openai(200_000, reasoning=True),
}
_ANTHROPIC = {
    "claude-": _claude(200_000, 4_096),
    "claude-haiku-4-5": _claude(200_000, 4_096, reasoning=False),
    "claude-sonnet-4-5": _claude(200_000, 1_024, reasoning=False),
    "claude-sonnet-4-6": _claude(200_000, 2_048),
    "claude-opus-4-5": _claude(200_000, 4_096),
}
_UNKNOWN = Capabilities(parallel_slots=8)


def capabilities_of(provider: str, model: str) -> Capabilities:
    """Look up a model; ``reasoning`` means that it takes an effort."""
    table = {"openai": _OPENAI, "anthropic": _ANTHROPIC}.get(provider, {})
    prefix = max((prefix for prefix in table if model.startswith(prefix)), key=len, default=None)
    # Servers that speak OpenAI's API mostly have log-probabilities; one that has not refuses them in its own words.
    unknown = replace(_UNKNOWN, logprobs=provider == "openai", names=provider == "openai")
    return table[prefix] if prefix is not None else unknown


def worth_caching(prompt: Prompt, capabilities: Capabilities) -> bool:
    """Whether what a prompt shares with others is as long as the provider's cache wants it."""
    least = capabilities.prompt_cache_minimum
    return least is not None and bool(prompt.shared) and _tokens_of(prompt.prefix) >= least


def _tokens_of(text: str) -> int:
    return math.ceil(len(text.encode()) / 3.5)


def estimate_tokens(prompt: Prompt) -> int:
    """Estimate the tokens of a prompt: 3.5 UTF-8 bytes each, and four for each message's frame."""
    size = sum(len(message.content.encode()) for message in prompt.messages)
    return math.ceil(size / 3.5) + 4 * len(prompt.messages)
