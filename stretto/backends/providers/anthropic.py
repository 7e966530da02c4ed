"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from stretto.answer import Usage
from stretto.backends.base import Prompt
from stretto.backends.known_models import bounded_output, may_take_schema, worth_caching
from stretto.backends.providers.event_values import count_of, object_of, objects_of, text_of, value_of, word_of
from stretto.backends.providers.http_clients import async_client
from stretto.backends.providers.remote import Finish, Piece, RemoteBackend
from stretto.request import GenerationOptions

_DEFAULT_MAX_TOKENS = 16_384  # the API wants a number; thinking counts towards it
_FINISH: dict[str, Finish] = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}


class AnthropicBackend(RemoteBackend):
    """A model behind the Messages API, which has no seed."""

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    sdk = "anthropic.resources.messages"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"
    lacks = frozenset({"seed"})

    def _connect(self, key: str, url: str) -> Any:
        import anthropic  # noqa: PLC0415 - imported on first use: it takes over a second

        return anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=async_client(anthropic))

    def _parameters(self, prompt: Prompt, options: GenerationOptions) -> dict[str, Any]:
        schema = prompt.response_schema if may_take_schema(self.provider, self.model) else None
        given = {
            "system": "\n\n".join(message.content for message in prompt.messages if message.role == "system") or None,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop_sequences": list(options.stop) or None,
            "effort": prompt.effort if self.capabilities.reasoning else None,
            "format": {"type": "json_schema", "schema": dict(schema)} if schema is not None else None,
        }
        return {
            "model": self.model,
            "max_tokens": bounded_output(self.provider, self.model, options.max_tokens or _DEFAULT_MAX_TOKENS),
            "messages": _turns(prompt, worth_caching(prompt, self.capabilities)),
            **{name: value for name, value in given.items() if value is not None},
        }

    async def _send(self, client: Any, parameters: dict[str, Any]) -> Any:
        sent = dict(parameters)
        # The SDK has no arguments for sampling any more; older models still take it.
        sampling = {name: sent.pop(name) for name in ("temperature", "top_p") if name in sent}
        output = {name: sent.pop(name) for name in ("effort", "format") if name in sent}
        if output:
            sent["output_config"] = output
        return await client.messages.create(**sent, stream=True, extra_body=sampling or None)

    def _read(self, event: Any) -> Piece:
        kind = value_of(event, "type")
        if kind == "content_block_delta":
            delta = object_of(event, "delta")
            if value_of(delta, "type") == "text_delta":
                return Piece(text=text_of(delta, "text"))
            return Piece(thinking=word_of(delta, "thinking") or "")
        if kind == "message_start":
            # What it says of the answer's tokens is a beginning, not a report.
            return Piece(usage=_prompt_usage(value_of(value_of(event, "message"), "usage")))
        if kind == "message_delta":
            return Piece(
                usage=_usage(value_of(event, "usage")),
                finish=_finish(word_of(value_of(event, "delta"), "stop_reason")),
            )
        return Piece()

    def _read_whole(self, body: Mapping[str, Any]) -> Piece | None:
        finish = _finish(word_of(body, "stop_reason"))
        if body.get("type") != "message" or finish is None or not isinstance(body.get("content"), list):
            return None
        return Piece(
            text="".join(text_of(block, "text") for block in objects_of(body, "content") if _is_text(block)),
            usage=_usage(body.get("usage")),
            finish=finish,
        )


def _is_text(block: Any) -> bool:
    return bool(value_of(block, "type") == "text")


def _finish(reason: str | None) -> Finish | None:
    return _FINISH.get(reason, "stop") if reason else None


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


def _turns(prompt: Prompt, cached: bool) -> list[dict[str, Any]]:
    """Give the turns without system messages; those of one role in a row become one.

    ``cached``: mark the end of what other calls share, so that it is kept. An entry can be read once the response of
    the call that wrote it has begun, which is when the first point of an outline starts.
    """
    spoken = (message for message in prompt.messages if message.role != "system")
    turns: list[dict[str, Any]] = [
        {"role": role, "content": "\n\n".join(message.content for message in messages)}
        for role, messages in groupby(spoken, key=lambda message: message.role)
    ]
    if cached:
        text, own = turns[-1]["content"], len(prompt.messages[-1].content) - prompt.shared
        shared: dict[str, Any] = {"type": "text", "text": text[: len(text) - own]}
        rest = [{"type": "text", "text": text[len(text) - own :]}] if own else []
        turns[-1]["content"] = [shared | {"cache_control": {"type": "ephemeral"}}, *rest]
    return turns
