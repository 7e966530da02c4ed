"""How a model is asked the same several times, so that it does not answer the same each time."""

from __future__ import annotations

from typing import Any

from stretto.backends.base import Capabilities
from stretto.foundation.token_estimates import typical_tokens
from stretto.generation_options import GenerationOptions
from stretto.request import Request

__all__ = ["TEMPERATURE", "prompt_tokens", "sampled"]

TEMPERATURE = 0.7  # of local models, which would take the likeliest token each time; servers sample anyway


def sampled(options: GenerationOptions, able: Capabilities, place: int, **changes: Any) -> GenerationOptions:
    """Options of the sample at this place, from 0: sampling, and with random numbers of its own."""
    if options.temperature is None and able.decodings:
        changes["temperature"] = TEMPERATURE
    if options.seed is not None:
        changes["seed"] = options.seed + place
    return options.model_copy(update=changes)


def prompt_tokens(request: Request) -> int:
    """Estimated tokens of the conversation and its documents."""
    characters = sum(len(each.content) for each in request.messages) + sum(len(each.text) for each in request.documents)
    return typical_tokens(characters) + 1
