"""Asking multiple times: one model with varied samples, or the models of different roles."""

from __future__ import annotations

from typing import Any

from stretto.backends.base import Backend, Capabilities
from stretto.backends.known_models import typical_tokens
from stretto.foundation.arguments import safe_repr
from stretto.strategies.runtime.runner import Runner
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request

TEMPERATURE = 0.7  # for local models, which decode greedily by default; servers sample anyway


def sampled(options: GenerationOptions, able: Capabilities, place: int, **changes: Any) -> GenerationOptions:
    """Return the options of sample number ``place``, from 0: sampling, with a separate seed."""
    if options.temperature is None and able.decodings:
        changes["temperature"] = TEMPERATURE
    if options.seed is not None:
        changes["seed"] = options.seed + place
    return options.model_copy(update=changes)


def prompt_tokens(request: Request) -> int:
    """Estimate the tokens of the conversation and its documents."""
    characters = sum(len(each.content) for each in request.messages) + sum(len(each.text) for each in request.documents)
    return typical_tokens(characters) + 1


def backend_for(runner: Runner, given: str | Backend, option: str) -> Backend:
    """Return the backend of a role, or the given backend itself. Raises `InvalidRequestError`."""
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
