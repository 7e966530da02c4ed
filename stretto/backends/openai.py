"""OpenAI, and every server that speaks its Chat Completions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
            "messages": [message.model_dump(exclude_none=True) for message in prompt.messages],
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
        # chat.completions.create walks the parameters against its types, and builds four models for each event; that
        # is two fifths of what a short call takes here. Both are plain JSON already, so the request goes out with the
        # SDK's own verb, and each event comes back as it was sent.
        from openai import AsyncStream  # noqa: PLC0415 - imported on first use, as above

        return await client.post(
            "/chat/completions",
            body=parameters,
            options={"security": {"bearer_auth": True}},  # as create does: never an administrator's key
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _read(self, event: Any) -> Chunk:
        usage = _usage(counted) if (counted := event.get("usage")) else None
        choice = choices[0] if (choices := event.get("choices")) else None
        if choice is None:
            return Chunk(usage=usage)
        delta = choice.get("delta") or {}
        refusal = delta.get("refusal")  # the model's own words; the finish reason says only stop
        reason = choice.get("finish_reason")
        finish = _FINISH.get(reason, "stop") if reason else None
        return Chunk(
            text=refusal or delta.get("content") or "",
            usage=usage,
            finish_reason="refusal" if refusal else finish,  # type: ignore[arg-type]  # the table holds only these
            logprobs=_logprobs(choice.get("logprobs")),
        )


def _logprobs(reported: Mapping[str, Any] | None) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            token=each["token"],
            logprob=each["logprob"],
            top=tuple((other["token"], other["logprob"]) for other in each.get("top_logprobs") or ()),
        )
        for each in (reported or {}).get("content") or ()
    )


def _usage(counted: Mapping[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=counted.get("prompt_tokens") or 0,
        completion_tokens=counted.get("completion_tokens") or 0,
        cached_tokens=(counted.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(counted.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
