"""OpenAI, and every server that speaks its Chat Completions."""

from __future__ import annotations

import hashlib
from typing import Any

from stretto.answer import TokenLogprob, Usage
from stretto.backends.base import Chunk, Prompt
from stretto.backends.http_clients import async_client
from stretto.backends.known_models import worth_caching
from stretto.backends.remote import RemoteBackend
from stretto.request import GenerationOptions

_FINISH = {"length": "length", "content_filter": "refusal"}


class OpenAIBackend(RemoteBackend):
    """A model behind Chat Completions, the surface that all compatible servers share."""

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    sdk = "openai.resources.chat"
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def _connect(self, key: str, url: str) -> Any:
        import openai  # noqa: PLC0415 - imported on first use: it takes 0.4 s

        return openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=async_client())

    def _parameters(self, prompt: Prompt, options: GenerationOptions) -> dict[str, Any]:
        # Older compatible servers ignore max_completion_tokens in silence, and would never stop;
        # max_tokens is refused aloud where it is not known, and then learned.
        limit = "max_tokens" if self.compatible else "max_completion_tokens"
        given = {
            limit: options.max_tokens,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop": list(options.stop) or None,
            "seed": options.seed,
            "reasoning_effort": prompt.effort if self.capabilities.reasoning else None,
            "response_format": self._format(prompt),
            "logprobs": None if options.logprobs is None else True,
            "top_logprobs": options.logprobs or None,
            "prompt_cache_key": self._cache_key(prompt),
        }
        return {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **{name: value for name, value in given.items() if value is not None},
        }

    def _cache_key(self, prompt: Prompt) -> str | None:
        # OpenAI caches by itself, on the machine that a call comes to; equal keys bring calls to one machine.
        if self.compatible or not worth_caching(prompt, self.capabilities):
            return None
        return hashlib.sha256(prompt.prefix.encode()).hexdigest()[:32]

    def _format(self, prompt: Prompt) -> dict[str, Any] | None:
        schema = prompt.response_schema
        if schema is None or not self.capabilities.json_schema:
            return None
        # Strict mode refuses schemas that leave properties open.
        strict = schema.get("additionalProperties") is False
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": strict}}

    async def _send(self, client: Any, parameters: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**parameters)

    def _read(self, event: Any) -> Chunk:
        usage = _usage(event.usage) if getattr(event, "usage", None) else None
        choice = event.choices[0] if event.choices else None
        if choice is None:
            return Chunk(usage=usage)
        refusal = getattr(choice.delta, "refusal", None)  # the model's own words; the finish reason says only stop
        text = refusal or getattr(choice.delta, "content", None) or ""
        finish = _FINISH.get(choice.finish_reason, "stop") if choice.finish_reason else None
        return Chunk(
            text=text,
            usage=usage,
            finish_reason="refusal" if refusal else finish,  # type: ignore[arg-type]  # the table holds only these
            logprobs=_logprobs(getattr(choice, "logprobs", None)),
        )


def _logprobs(reported: Any) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            token=each.token,
            logprob=each.logprob,
            top=tuple((other.token, other.logprob) for other in each.top_logprobs or ()),
        )
        for each in getattr(reported, "content", None) or ()
    )


def _usage(counted: Any) -> Usage:
    prompt = getattr(counted, "prompt_tokens_details", None)
    completion = getattr(counted, "completion_tokens_details", None)
    return Usage(
        prompt_tokens=counted.prompt_tokens or 0,
        completion_tokens=counted.completion_tokens or 0,
        cached_tokens=getattr(prompt, "cached_tokens", None) or 0,
        reasoning_tokens=getattr(completion, "reasoning_tokens", None) or 0,
    )
