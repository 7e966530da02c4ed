"""Anthropic's Messages API."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from stretto.answer import Usage
from stretto.backends.base import Chunk, Prompt
from stretto.backends.http_clients import async_client
from stretto.backends.known_models import worth_caching
from stretto.backends.remote import RemoteBackend
from stretto.request import GenerationOptions

_DEFAULT_MAX_TOKENS = 16_384  # the API wants a number; thinking counts towards it
_FINISH = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}


class AnthropicBackend(RemoteBackend):
    """A model behind the Messages API. It has no seed: one in the options is not sent."""

    provider = "anthropic"
    default_url = "https://api.anthropic.com"
    sdk = "anthropic.resources.messages"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"

    def _connect(self, key: str, url: str) -> Any:
        import anthropic  # noqa: PLC0415 - imported on first use: it takes over a second

        return anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=async_client())

    def _parameters(self, prompt: Prompt, options: GenerationOptions) -> dict[str, Any]:
        schema = prompt.response_schema if self.capabilities.json_schema else None
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
            "max_tokens": options.max_tokens or _DEFAULT_MAX_TOKENS,
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

    def _read(self, event: Any) -> Chunk:
        if event.type == "content_block_delta":
            return Chunk(text=event.delta.text if event.delta.type == "text_delta" else "")
        if event.type == "message_start":
            counted = event.message.usage
            cached = counted.cache_read_input_tokens or 0
            written = counted.cache_creation_input_tokens or 0
            prompt_tokens = counted.input_tokens + cached + written
            return Chunk(usage=Usage(prompt_tokens=prompt_tokens, cached_tokens=cached, cache_write_tokens=written))
        if event.type == "message_delta":
            details = event.usage.output_tokens_details
            usage = Usage(
                completion_tokens=event.usage.output_tokens,
                reasoning_tokens=details.thinking_tokens if details else 0,
            )
            reason = event.delta.stop_reason
            finish = _FINISH.get(reason, "stop") if reason else None
            return Chunk(usage=usage, finish_reason=finish)  # type: ignore[arg-type]  # the table holds only these
        return Chunk()


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
