"""What a request needs of its backend, and the error where the backend does not have it."""

from __future__ import annotations

from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError
from stretto.request import Request

__all__ = ["check_needs"]


def check_needs(request: Request, backend: Backend) -> None:
    """Raise `InvalidRequestError` for what the backend cannot do, with the remedy."""
    able = backend.capabilities
    if request.options.logprobs is not None and not able.logprobs:
        raise InvalidRequestError(
            f"logprobs={request.options.logprobs} cannot be had from {backend.name}: it reports no log-probabilities. "
            "Leave it out, or use a local: model or one of openai: that does not reason."
        )
    if isinstance(request.options.response_format, str) and not able.regex:
        raise InvalidRequestError(
            f"response_format is a regular expression, and {backend.name} cannot hold an answer to one. "
            "Give a JSON schema or a pydantic model, leave it out, or use a local: model."
        )
    calls = any(message.role == "tool" or message.tool_calls for message in request.messages)
    if (request.tools or calls) and not able.tools:
        what = "tools= cannot be used" if request.tools else "The tool calls in the conversation cannot be read"
        raise InvalidRequestError(
            f"{what}: {backend.name} takes no tools. Leave them out, or use another model: those of openai: and "
            "anthropic: take them, and local: ones whose chat template does."
        )
    media = [kind for message in request.messages for kind in message.media]
    refused = [kind for kind in media if not able.media or kind in able.refused_media]
    if refused:
        reads = "does not take it" if able.media else "reads text only"
        raise InvalidRequestError(
            f"The conversation holds a part of the type {refused[0]!r}, and {backend.name} {reads}. Leave it "
            "out, describe it in words, or use another model."
        )
