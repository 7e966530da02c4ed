"""OpenAI, and every server that speaks its Chat Completions."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from stretto.answer import Usage
from stretto.backends.base import Capabilities, ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows, bounded_output, may_take_schema, worth_caching
from stretto.backends.openai_tokens import openai_counter
from stretto.backends.providers.discovery import discover
from stretto.backends.providers.event_stream import json_events
from stretto.backends.providers.event_values import (
    EventError,
    OddEventError,
    count_of,
    object_of,
    objects_of,
    plain,
    text_of,
    value_of,
    word_of,
)
from stretto.backends.providers.fetching import fetching
from stretto.backends.providers.http_clients import async_client
from stretto.backends.providers.long_bodies import around_the_sdk, post_very_long
from stretto.backends.providers.parameters import GUIDED_JSON
from stretto.backends.providers.pieces import Finish, Piece, Thought
from stretto.backends.providers.remote import RemoteBackend
from stretto.backends.providers.server_facts import ServerFacts, able
from stretto.errors import BackendError, StrettoError
from stretto.foundation.surrogates import mend
from stretto.request import GenerationOptions
from stretto.token_records import TokenLogprob
from stretto.tool_calls import ToolCallFragment

_log = logging.getLogger(__name__)

_FINISH: dict[str, Finish] = {
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_EXTRA = ("model", "system_fingerprint", "service_tier")
_THINKING = ("reasoning_content", "reasoning")  # of compatible servers
_OF_OPEN_MODELS = frozenset({"chat_template_kwargs"})  # fields that OpenAI itself refuses
_GOING_ON = {"add_generation_prompt": False, "continue_final_message": True}
_OF_A_CALL = frozenset({"index", "id", "type", "function", "custom"})
_ASK_AGAIN_S = 60.0  # until a server that did not answer is asked again


class OpenAIBackend(RemoteBackend):
    """A model behind Chat Completions, the surface that all compatible servers share."""

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    sdk = "openai.resources.chat.completions.completions"  # the packages around it import nothing by themselves
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, own_rows: Rows = NO_ROWS
    ) -> None:
        super().__init__(model, base_url=base_url, api_key=api_key, own_rows=own_rows)
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Lock] = WeakKeyDictionary()
        self._able: tuple[ServerFacts, Capabilities] | None = None  # read several times for each request

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model by its name, from what its server told, and from what it refused."""
        facts, known = self._learned.facts, self._capabilities
        if facts is not None:
            if self._able is None or self._able[0] is not facts:
                self._able = facts, able(self._capabilities, facts)
            known = self._able[1]
        return replace(known, choices=False) if known.choices and self._memory.refuses("n") else known

    @property
    def quantisation(self) -> str | None:
        """Of the model's weights, where its server told it."""
        return None if self._learned.facts is None else self._learned.facts.quantisation

    async def ask_server(self, within_s: float) -> None:
        """Ask a compatible server what it can do, once in a process; one that does not answer, again after a minute."""
        known = self._learned
        if not self.compatible or known.settled or (known.facts is not None and time.monotonic() < known.ask_again):
            return
        try:
            await self._import_sdk()
            with anyio.move_on_after(within_s):
                async with self._asking.setdefault(asyncio.get_running_loop(), anyio.Lock()):
                    if not known.settled and time.monotonic() >= known.ask_again:
                        await self._discover()
        except Exception:  # noqa: BLE001 - whatever it is, the request goes on without
            _log.exception("%s could not be asked what it can do; its answers do not depend on it", self.name)

    async def _discover(self) -> None:
        self._learned.ask_again = time.monotonic() + _ASK_AGAIN_S
        async with fetching(self._key.get_secret_value()) as fetch:
            self._learned.facts = await discover(fetch, self._url, self.model) or self._learned.facts

    async def text_counter(self) -> Callable[[str], int] | None:
        """Count as OpenAI's own models do, where that can be done on this machine; others are not known."""
        if self.compatible:
            return None
        return await anyio.to_thread.run_sync(openai_counter, self.model)

    @asynccontextmanager
    async def responding(self, body: Mapping[str, Any], api: str = "responses") -> AsyncGenerator[Any]:
        """Send a body to the server's Responses as it is, once; gives the SDK's response, to be read in the context.

        ``api`` is "completions" for the API before the chat, or "chat.completions". Raises `BackendError`.
        """
        await self._import_sdk()
        client = await self._client()
        failure: BackendError | None = None
        known = {name: body[name] for name in ("model", "input", "prompt", "messages", "stream") if name in body}
        rest = {name: value for name, value in body.items() if name not in known}
        try:
            sending = attrgetter(api)(client).with_streaming_response
            async with sending.create(**known, extra_body=rest) as response:
                yield response
        except StrettoError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
            failure = self._failure(error, started=False)
        if failure is not None:
            raise failure

    def _connect(self, key: str, url: str) -> Any:
        import openai  # noqa: PLC0415 - imported on first use: it takes 0.4 s

        return openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=async_client(openai))

    def _parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any]:
        # Older compatible servers ignore max_completion_tokens in silence, and would never stop;
        # max_tokens is refused aloud where it is not known, and then learned.
        limit = "max_tokens" if self.compatible else "max_completion_tokens"
        given = {
            limit: bounded_output(self.provider, self.model, options.max_tokens, self._own_rows),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop": list(options.stop) or None,
            "seed": options.seed,
            "reasoning_effort": prompt.effort if self.capabilities.reasoning else None,
            "response_format": self._format(prompt),
            "logprobs": None if options.logprobs is None else True,
            "top_logprobs": options.logprobs or None,
            "prompt_cache_key": self._cache_key(prompt),
            "tools": list(prompt.tools) or None,
            "tool_choice": prompt.tool_choice,
            "n": prompt.n if prompt.n > 1 else None,
        }
        return {
            "model": self.model,
            "messages": [message.as_openai() for message in prompt.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **{name: value for name, value in given.items() if value is not None and name not in prompt.extra},
        }

    def _cache_key(self, prompt: ModelRequest) -> str | None:
        # OpenAI caches by itself, on the machine that a call comes to; equal keys bring calls to one machine.
        if self.compatible or not worth_caching(prompt, self.capabilities):
            return None
        return hashlib.sha256(prompt.prefix.encode()).hexdigest()[:32]

    def _format(self, prompt: ModelRequest) -> dict[str, Any] | None:
        schema = prompt.response_schema
        if schema is None or not may_take_schema(self.provider, self.model, self._own_rows):
            return None
        # Strict mode refuses schemas that leave properties open.
        strict = schema.get("additionalProperties") is False
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": strict}}

    def _extra(self, prompt: ModelRequest) -> dict[str, Any]:
        own = frozenset() if self.compatible else _OF_OPEN_MODELS
        facts, last = self._learned.facts, prompt.messages[-1]
        # vLLM begins a new turn otherwise; llama.cpp's server goes on with the last one by itself.
        going_on = facts is not None and facts.engine == "vllm" and last.role == "assistant" and not last.tool_calls
        return {
            **(_GOING_ON if going_on else {}),
            **{name: value for name, value in prompt.extra.items() if name not in own},
        }

    def _left_out(self, prompt: ModelRequest) -> tuple[str, ...]:
        given = () if self.compatible else sorted(_OF_OPEN_MODELS & prompt.extra.keys())
        return tuple(f"{name} had no effect: {self.name} has nothing like it." for name in given)

    async def _send(self, client: Any, parameters: dict[str, Any], extra: dict[str, Any]) -> Any:
        known = {name: value for name, value in parameters.items() if name != GUIDED_JSON}
        if GUIDED_JSON in parameters:  # the SDK has no such argument
            extra = extra | {GUIDED_JSON: parameters[GUIDED_JSON]}
        import openai  # noqa: PLC0415 - imported long since
        from openai.types.chat import ChatCompletionChunk  # noqa: PLC0415 - as above

        stream_of = openai.AsyncStream[ChatCompletionChunk]
        stream = await post_very_long(client, "/chat/completions", {**known, **extra}, stream_of)
        if stream is not None:
            return stream
        known, beside = around_the_sdk(known)
        return await client.chat.completions.create(**known, extra_body={**beside, **extra} or None)

    async def _events(self, stream: Any) -> AsyncGenerator[Any]:
        import openai  # noqa: PLC0415 - imported long since

        # Tools that trace the SDK return a stream of another type, and have to see the SDK's events.
        if type(stream) is not openai.AsyncStream:
            async for event in stream:
                yield event
            return
        async with aclosing(json_events(stream.response.aiter_bytes())) as events:
            async for event in events:
                yield event

    def _read(self, event: Any) -> Sequence[Piece]:
        if event is None:
            return ()
        if isinstance(event, str):
            raise EventError(event)
        if (value_of(event, "choices") is None or value_of(event, "error")) and (said := _error_of(event)):
            raise EventError(said)
        extra = _extra(event)
        pieces = [_piece(choice, object_of(choice, "delta"), extra) for choice in objects_of(event, "choices")]
        usage = _usage(value_of(event, "usage"))
        return [*pieces, Piece(usage=usage)] if usage else pieces

    def _read_whole(self, body: Mapping[str, Any]) -> Sequence[Piece]:
        try:
            choices = objects_of(body, "choices")
            extra = _extra(body)
            pieces = [_piece(choice, object_of(choice, "message"), extra) for choice in choices]
        except OddEventError:
            return ()
        if not pieces or not all(
            piece.finish and value_of(each, "message") for piece, each in zip(pieces, choices, strict=True)
        ):
            return ()
        usage = _usage(body.get("usage"))
        return [Piece(usage=usage), *pieces] if usage else pieces


def _extra(response: Any) -> dict[str, str]:
    """The fields of a response that only the caller can use."""
    return {name: said for name in _EXTRA if isinstance(said := value_of(response, name), str)}


def _piece(choice: Any, said: Any, extra: Mapping[str, Any]) -> Piece:
    """Read a choice; ``said`` is its message, or what is new of it."""
    finish = word_of(choice, "finish_reason")
    refusal = text_of(said, "refusal")  # the model's own words; the finish reason says only stop
    sound = value_of(said, "audio")
    thoughts = [Thought(name, name, text) for name in _THINKING if (text := word_of(said, name))]
    return Piece(
        text=refusal or text_of(said, "content") or word_of(sound, "transcript") or "",
        thinking="".join(thought.text for thought in thoughts),
        thoughts=tuple(thoughts[:1]),  # some servers say the same under both names
        finish=_FINISH.get(finish, "stop") if finish else None,
        stopped_by=word_of(choice, "stop_reason") or word_of(choice, "matched_stop"),  # of vLLM, of SGLang
        refused=bool(refusal),
        logprobs=_logprobs(value_of(choice, "logprobs")),
        tool_calls=_calls(said),
        choice=_index(choice),
        extra=extra,
        annotations=[plain(each) for each in objects_of(said, "annotations")],
        warnings=("The answer was spoken: of its sound, only the words are here.",) if value_of(sound, "data") else (),
    )


def _index(choice: Any) -> int:
    """Which choice it is; the first where nothing readable is said, -1 for what cannot be one."""
    index = value_of(choice, "index")
    if index is None:
        return 0
    return int(index) if isinstance(index, (int, str)) and str(index).isdecimal() else -1


def _calls(said: Any) -> tuple[ToolCallFragment, ...]:
    calls = [_call(call, place) for place, call in enumerate(objects_of(said, "tool_calls"))]
    if (function := object_of(said, "function_call")) is not None:  # of the API before tools
        calls.append(_delta(function, 0, None, "arguments"))
    return tuple(calls)


def _call(call: Any, place: int) -> ToolCallFragment:
    index = value_of(call, "index")
    own = object_of(call, "custom")
    function = own if own is not None else object_of(call, "function")
    at = index if isinstance(index, int) else place  # a message that is not streamed numbers nothing
    delta = _delta(function, at, word_of(call, "id"), "arguments" if own is None else "input")
    fields = call if isinstance(call, Mapping) else getattr(call, "model_extra", None) or {}
    if extra := {name: value for name, value in fields.items() if name not in _OF_A_CALL and value is not None}:
        delta = replace(delta, extra=extra)
    return delta if own is None else replace(delta, type="custom")


def _delta(function: Any, index: int, call_id: str | None, field: str) -> ToolCallFragment:
    given = value_of(function, field)
    if given is not None and not isinstance(given, str):  # some servers send an object where JSON text belongs
        given = json.dumps(plain(given))
    return ToolCallFragment(index=index, id=call_id, name=word_of(function, "name"), arguments=given or "")


def _error_of(event: Any) -> Any:
    """Give an event without choices that says something: an error in a form of the server's."""
    event = plain(event)
    named = isinstance(event, Mapping) and any(event.get(name) for name in ("error", "message", "detail"))
    return event if named else None


def _logprobs(reported: Any) -> tuple[TokenLogprob, ...]:
    """Read log-probabilities; invalid ones are left out."""
    listed = value_of(reported, "content")
    read = (_logprob(each) for each in listed) if isinstance(listed, list) else ()
    return tuple(each for each in read if each is not None)


def _logprob(each: Any) -> TokenLogprob | None:
    token, logprob, beside = (value_of(each, name) for name in ("token", "logprob", "top_logprobs"))
    if not isinstance(token, str) or not isinstance(logprob, (int, float)):
        return None
    pairs = [(value_of(other, "token"), value_of(other, "logprob")) for other in beside or ()]
    return TokenLogprob(
        token=mend(token),
        logprob=logprob,
        top=tuple((mend(word), value) for word, value in pairs if isinstance(word, str) and _is_number(value)),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _usage(counted: Any) -> Usage | None:
    prompt, completion = count_of(counted, "prompt_tokens"), count_of(counted, "completion_tokens")
    if prompt is None and completion is None:
        return None
    return Usage(
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
        cached_tokens=count_of(value_of(counted, "prompt_tokens_details"), "cached_tokens") or 0,
        reasoning_tokens=count_of(value_of(counted, "completion_tokens_details"), "reasoning_tokens") or 0,
    )
