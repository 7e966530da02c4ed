"""Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.backends.known_models import bounded_output, may_take_schema, worth_caching
from stretto.backends.providers.anthropic_form import (
    OPENAI_ONLY,
    extra_of,
    system_of,
    tool_choice_of,
    tools_of,
    turns_of,
)
from stretto.backends.providers.call_pieces import CallPiece
from stretto.backends.providers.event_values import (
    count_of,
    object_of,
    objects_of,
    plain,
    text_of,
    value_of,
    word_of,
)
from stretto.backends.providers.pieces import AnswerPiece, Thought
from stretto.backends.providers.remote import RemoteBackend
from stretto.backends.providers.transport.http_clients import async_client
from stretto.backends.providers.transport.long_bodies import around_the_sdk, post_very_long
from stretto.values.answer import Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.request import GenerationOptions

_DEFAULT_MAX_TOKENS = 16_384  # the API requires a number; thinking counts towards it
_THOUGHTS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}


class AnthropicBackend(RemoteBackend):
    """A model behind the Messages API, which has no ``seed``."""

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    sdk = "anthropic.resources.messages"
    lacks = frozenset({"seed"})
    takes = frozenset({"tools", "media", "json_schema"})

    def connect(self, key: str, url: str, query: Mapping[str, str], proxy: str | None) -> Any:
        import anthropic  # noqa: PLC0415 - imported on first use: it takes over a second

        client = async_client(anthropic, proxy)
        return anthropic.AsyncAnthropic(
            api_key=key, base_url=url, default_query=query, max_retries=0, http_client=client
        )

    def parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any]:
        """Return the parameters of a call, by the names of the Messages API."""
        wanted = options.max_tokens or _DEFAULT_MAX_TOKENS
        schema = prompt.response_schema if may_take_schema(self.provider, self.model, self._own_rows) else None
        given = {
            "system": system_of(prompt),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop_sequences": list(options.stop) or None,
            "effort": prompt.effort if self.capabilities.reasoning else None,
            "format": {"type": "json_schema", "schema": dict(schema)} if schema is not None else None,
            "tools": tools_of(prompt) or None,
            "tool_choice": tool_choice_of(prompt),
        }
        return {
            "model": self.model,
            "max_tokens": bounded_output(self.provider, self.model, wanted, self._own_rows),
            "messages": _turns(prompt, worth_caching(prompt, self.capabilities), self.name),
            **{name: value for name, value in given.items() if value is not None},
        }

    def extra_fields(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the caller's own fields, without those that the API lacks."""
        return extra_of(prompt.extra)

    def left_out(self, prompt: ModelRequest) -> tuple[str, ...]:
        """Return warnings for the fields that only OpenAI's API has."""
        names = [name for name in prompt.extra if name in OPENAI_ONLY]
        warning = f"{' and '.join(names)} had no effect: {self.name} has nothing like it."
        return (AnswerWarning(warning, "option"),) if names else ()

    async def send(self, client: Any, parameters: dict[str, Any], extra: dict[str, Any]) -> Any:
        """Start a stream of the SDK; a very long conversation bypasses its models."""
        sent = dict(parameters)
        # The SDK has dropped the sampling arguments; older models still accept them.
        sampling: dict[str, Any] = {name: sent.pop(name) for name in ("temperature", "top_p") if name in sent}
        output = {name: sent.pop(name) for name in ("effort", "format") if name in sent}
        sent["output_config"] = output | dict(extra.pop("output_config", {}))  # the caller's values take precedence
        if not sent["output_config"]:
            del sent["output_config"]
        import anthropic  # noqa: PLC0415 - imported long since
        from anthropic.types import RawMessageStreamEvent  # noqa: PLC0415 - as above

        body: dict[str, Any] = {**sent, "stream": True, **sampling, **extra}
        stream_of = anthropic.AsyncStream[RawMessageStreamEvent]
        stream = await post_very_long(client, "/v1/messages", body, stream_of)
        if stream is not None:
            return stream
        sent, long_lists = around_the_sdk(sent)
        return await client.messages.create(**sent, stream=True, extra_body=(long_lists | sampling | extra) or None)

    def read(self, event: Any) -> Sequence[AnswerPiece]:
        """Parse an event of the Messages API."""
        kind = value_of(event, "type")
        if kind == "content_block_start":
            return _begun(object_of(event, "content_block"), count_of(event, "index") or 0)
        if kind == "content_block_delta":
            return [_delta(object_of(event, "delta"), count_of(event, "index") or 0)]
        if kind == "message_start":
            # Its count of the answer's tokens is only a starting value.
            return [AnswerPiece(usage=_prompt_usage(value_of(value_of(event, "message"), "usage")))]
        if kind == "message_delta":
            delta = value_of(event, "delta")
            return [AnswerPiece(usage=_usage(value_of(event, "usage")), **_end(delta))]
        return ()

    def read_whole(self, body: Mapping[str, Any]) -> Sequence[AnswerPiece]:
        """Parse an answer of the Messages API that was not streamed."""
        if (
            body.get("type") != "message"
            or word_of(body, "stop_reason") is None
            or not isinstance(body.get("content"), list)
        ):
            return ()
        blocks = objects_of(body, "content")
        pieces = [piece for place, block in enumerate(blocks) for piece in _begun(block, place)]
        return [AnswerPiece(usage=_usage(body.get("usage"))), *pieces, AnswerPiece(**_end(body))]


def _delta(delta: Any, index: int) -> AnswerPiece:
    match value_of(delta, "type"):
        case "text_delta":
            return AnswerPiece(text=text_of(delta, "text"))
        case "input_json_delta":
            return AnswerPiece(tool_calls=(CallPiece(index=index, arguments=text_of(delta, "partial_json")),))
        case "signature_delta":
            return AnswerPiece(thoughts=(Thought("thinking", "signature", text_of(delta, "signature"), index),))
    thought = word_of(delta, "thinking") or ""
    return AnswerPiece(thinking=thought, thoughts=(Thought("thinking", "thinking", thought, index),) if thought else ())


def _begun(block: Any, index: int) -> Sequence[AnswerPiece]:
    """Parse the start of a block: a tool call, a thought, or a text that some servers send whole."""
    kind = value_of(block, "type")
    if kind in _THOUGHTS:
        thoughts = [Thought(kind, name, text_of(block, name), index) for name in _THOUGHTS[kind]]
        return [AnswerPiece(thinking=text_of(block, "thinking"), thoughts=tuple(thoughts))]
    if kind != "tool_use":
        return [AnswerPiece(text=text_of(block, "text"))] if kind == "text" else ()
    given = value_of(block, "input")
    arguments = json.dumps(plain(given)) if given else ""
    call = CallPiece(index, word_of(block, "id"), word_of(block, "name") or "", arguments)
    return [AnswerPiece(tool_calls=(call,))]


def _end(ending: Any) -> dict[str, Any]:
    """Return how an answer ended, as fields of an `AnswerPiece`."""
    return {"finish": word_of(ending, "stop_reason"), "stopped_by": word_of(ending, "stop_sequence")}


def _prompt_usage(counted: Any) -> Usage | None:
    read = count_of(counted, "input_tokens")
    if read is None:
        return None
    cached = count_of(counted, "cache_read_input_tokens") or 0
    written = count_of(counted, "cache_creation_input_tokens") or 0
    return Usage(prompt_tokens=read + cached + written, cached_tokens=cached, cache_write_tokens=written)


def _usage(counted: Any) -> Usage | None:
    prompt, written = _prompt_usage(counted), count_of(counted, "output_tokens")
    if written is None:
        return prompt
    thought = count_of(value_of(counted, "output_tokens_details"), "thinking_tokens") or 0
    return (prompt or Usage()) + Usage(completion_tokens=written, reasoning_tokens=thought)


def _turns(prompt: ModelRequest, cached: bool, backend: str) -> list[dict[str, Any]]:
    """Return the turns without system messages; consecutive turns of one role are merged.

    ``cached``: mark the end of what other calls share, so that it is cached. An entry can be read once the response of
    the call that wrote it has begun, which is when the first point of an outline starts.
    """
    turns = turns_of(prompt.messages, backend)
    if cached and isinstance(turns[-1]["content"], str):
        text, own = turns[-1]["content"], len(prompt.messages[-1].content) - prompt.shared
        shared: dict[str, Any] = {"type": "text", "text": text[: len(text) - own]}
        rest = [{"type": "text", "text": text[len(text) - own :]}] if own else []
        turns[-1]["content"] = [shared | {"cache_control": {"type": "ephemeral"}}, *rest]
    return turns
