"""Asking several times: one model, so that it does not answer the same each time, or the models of several roles."""

from __future__ import annotations

from typing import Any

from stretto.backends.base import Backend, Capabilities
from stretto.backends.known_models import typical_tokens
from stretto.foundation.arguments import safe_repr
from stretto.strategies.runtime.runner import Runner
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request

TEMPERATURE = 0.7  # of local models, which would take the likeliest token each time; servers sample anyway


def sampled(options: GenerationOptions, able: Capabilities, place: int, **changes: Any) -> GenerationOptions:
    """Options of the sample at this place, from 0: sampling, with its own random numbers."""
    if options.temperature is None and able.decodings:
        changes["temperature"] = TEMPERATURE
    if options.seed is not None:
        changes["seed"] = options.seed + place
    return options.model_copy(update=changes)


def prompt_tokens(request: Request) -> int:
    """Estimated tokens of the conversation and its documents."""
    characters = sum(len(each.content) for each in request.messages) + sum(len(each.text) for each in request.documents)
    return typical_tokens(characters) + 1


def backend_for(runner: Runner, given: str | Backend, option: str) -> Backend:
    """The backend of a role, or the backend that was given itself. Raises `InvalidRequestError`."""
    if not isinstance(given, str):
        return given
    found = runner.backends.get(given)
    if found is None:
        known = ", ".join(map(repr, runner.backends))
        raise InvalidRequestError(
            f"strategy_options= holds {option}={safe_repr(given)}, and this client has no such role. It has {known}; "
            "name more with roles= of the client."
        )
    return found
