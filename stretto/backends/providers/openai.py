"""OpenAI, and every server that implements its Chat Completions API."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from stretto.backends.base import Capabilities, ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows, bounded_output, may_take_schema, worth_caching
from stretto.backends.providers.call_pieces import CallPiece
from stretto.backends.providers.discovery import Fetch, Page, discover
from stretto.backends.providers.ends import end_of, word_of_end
from stretto.backends.providers.event_values import (
    EventError,
    OddEventError,
    content_of,
    count_of,
    object_of,
    objects_of,
    plain,
    text_of,
    value_of,
    word_of,
    words_of,
)
from stretto.backends.providers.parameters import GUIDED_JSON
from stretto.backends.providers.pieces import AnswerPiece, Thought
from stretto.backends.providers.remote import RemoteBackend
from stretto.backends.providers.server_facts import Engine, ServerFacts, able
from stretto.backends.providers.strict_schemas import strict_form
from stretto.backends.providers.transport.error_bodies import is_error
from stretto.backends.providers.transport.event_lines import json_events
from stretto.backends.providers.transport.http_clients import async_client, http_library, with_query, without_query
from stretto.backends.providers.transport.long_bodies import around_the_sdk, post_very_long
from stretto.backends.providers.transport.proxies import proxy_to
from stretto.backends.tenants import cache_salt
from stretto.foundation.surrogates import fix_surrogates
from stretto.values.answer import Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import BackendError, StrettoError
from stretto.values.request import GenerationOptions
from stretto.values.token_records import TokenLogprob

_log = logging.getLogger(__name__)

_EXTRA = ("model", "system_fingerprint", "service_tier")
_THINKING = ("reasoning_content", "reasoning")  # on compatible servers
_OF_OPEN_MODELS = frozenset({"chat_template_kwargs"})  # fields that OpenAI itself rejects
_SALTED: tuple[Engine, ...] = ("vllm", "sglang")  # their prefix caches are separated by `cache_salt`
_GOING_ON = {"add_generation_prompt": False, "continue_final_message": True}
_OF_A_CALL = frozenset({"index", "id", "type", "function", "custom"})
_LONG = 10  # digits of an index
_ASK_AGAIN_S = 60.0  # before a server that did not answer is asked again


_FILES = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_LATEST = "o200k_base"
_AT_ONCE = 100_000  # characters that tiktoken's pattern processes at a time
_MOST = 4 * 2**20  # bytes of a body; the metrics of a large vLLM are below one MiB


class OpenAIBackend(RemoteBackend):
    """A model behind Chat Completions, the API that all compatible servers share."""

    provider = "openai"
    default_url = "https://api.openai.com/v1"
    sdk = "openai.resources.chat.completions.completions"  # the packages around it import nothing by themselves
    takes = frozenset({"tools", "media", "json_schema"})

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, own_rows: Rows = NO_ROWS
    ) -> None:
        super().__init__(model, base_url=base_url, api_key=api_key, own_rows=own_rows)
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Lock] = WeakKeyDictionary()
        self._able: tuple[ServerFacts, Capabilities] | None = None  # read several times for each request

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model from its name, its server's reports, and its rejections."""
        facts, known = self._learned.facts, self._capabilities
        if facts is not None:
            if self._able is None or self._able[0] is not facts:
                self._able = facts, able(self._capabilities, facts)
            known = self._able[1]
        return replace(known, choices=False) if known.choices and self._memory.refuses("n") else known

    @property
    def quantisation(self) -> str | None:
        """The quantisation of the model's weights, if its server reported it."""
        facts = self._learned.facts
        return None if facts is None else facts.quantisation

    async def ask_server(self, within_s: float) -> None:
        """Ask a compatible server what it can do, once per process; retry after a minute if it does not answer."""
        known = self._learned
        if not self.compatible or known.settled or (known.facts is not None and time.monotonic() < known.ask_again):
            return
        try:
            await self.load_ahead()
            with anyio.move_on_after(within_s):
                async with self._asking.setdefault(asyncio.get_running_loop(), anyio.Lock()):
                    if not known.settled and time.monotonic() >= known.ask_again:
                        await self._discover()
        except StrettoError:  # the call will report it
            return
        except Exception:  # noqa: BLE001 - whatever it is, the request proceeds without
            _log.exception("%s could not be asked what it can do; its answers do not depend on it", self.name)

    async def _discover(self) -> None:
        self._learned.ask_again = time.monotonic() + _ASK_AGAIN_S
        async with fetching(self._key.get_secret_value(), self._url) as fetch:
            url, _ = without_query(self._url)
            self._learned.facts = await discover(fetch, url, self.model) or self._learned.facts

    async def text_counter(self) -> Callable[[str], int] | None:
        """Return the counter of one of OpenAI's own models; ``None`` for others, or if it needs a download first."""
        if self.compatible:
            return None
        return await anyio.to_thread.run_sync(openai_counter, self.model)

    @property
    def parts_its_cache(self) -> bool:
        """Whether the server separates its prefix cache by `cache_salt`, as vLLM and SGLang do."""
        return self._learned.engine in _SALTED

    def _salt(self) -> dict[str, str]:
        salt = cache_salt() if self.parts_its_cache else None
        return {} if salt is None else {"cache_salt": salt}

    @asynccontextmanager
    async def responding(self, body: Mapping[str, Any], api: str = "responses") -> AsyncGenerator[Any]:
        """Send a body unchanged to the server's Responses API, once; yields the SDK's response, to read in the context.

        ``api`` is "completions" for the API from before chat, or "chat.completions". Raises `BackendError`.
        """
        await self.load_ahead()
        client = await self._client()
        failure: BackendError | None = None
        known = {name: body[name] for name in ("model", "input", "prompt", "messages", "stream") if name in body}
        rest = {name: value for name, value in body.items() if name not in known} | self._salt()
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

    def connect(self, key: str, url: str, query: Mapping[str, str], proxy: str | None) -> Any:
        import openai  # noqa: PLC0415 - imported on first use: it takes 0.4 s

        headers = {"api-key": key} if "api-version" in query else {}  # as Azure requires at such addresses
        client = async_client(openai, proxy)
        return openai.AsyncOpenAI(
            api_key=key, base_url=url, default_query=query, default_headers=headers, max_retries=0, http_client=client
        )

    def parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any]:
        """Return the parameters of a call, by the names of Chat Completions."""
        # Older compatible servers silently ignore max_completion_tokens, and would never stop; a server that does not
        # know max_tokens rejects it with an error, which is then learned.
        limit = "max_tokens" if self.compatible else "max_completion_tokens"
        if prompt.tool_choice == "none" and self._learned.engine is not None:
            # Engines of open models show the model tools that it must not call, and small models call them.
            prompt = replace(prompt, tools=(), tool_choice=None)
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
            "tools": [_strict_tool(tool) for tool in prompt.tools] or None,
            "tool_choice": prompt.tool_choice,
            "n": prompt.n if prompt.n > 1 else None,
            "prediction": self._prediction(prompt, options),
        }
        return {
            "model": self.model,
            "messages": [message.as_openai() for message in prompt.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **{name: value for name, value in given.items() if value is not None and name not in prompt.extra},
        }

    def _prediction(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any] | None:
        """Return the text that the answer might resemble; OpenAI rejects it in combination with these options."""
        conflicting = prompt.tools or prompt.n > 1 or options.max_tokens is not None or options.logprobs is not None
        if not (prompt.draft and self.capabilities.predictions) or conflicting or prompt.response_schema is not None:
            return None
        return {"type": "content", "content": prompt.draft}

    def _cache_key(self, prompt: ModelRequest) -> str | None:
        # OpenAI caches automatically, on the machine that gets the call; equal keys route calls to one machine.
        if self.compatible or not worth_caching(prompt, self.capabilities):
            return None
        return hashlib.sha256(f"{cache_salt() or ''}{prompt.prefix}".encode()).hexdigest()[:32]

    def _format(self, prompt: ModelRequest) -> dict[str, Any] | None:
        schema = prompt.response_schema
        if schema is None or not may_take_schema(self.provider, self.model, self._own_rows):
            return None
        allowed = prompt.strict is not False and self._learned.manner_of(schema) is None
        form = strict_form(schema) if allowed else None
        named_schema = {"name": "answer", "schema": dict(schema) if form is None else form, "strict": form is not None}
        return {"type": "json_schema", "json_schema": named_schema}

    def extra_fields(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the caller's own fields, without those that the API lacks."""
        own = frozenset() if self.compatible else _OF_OPEN_MODELS
        facts, last = self._learned.facts, prompt.messages[-1]
        # vLLM would begin a new turn; llama.cpp's server continues the last one by itself.
        going_on = facts is not None and facts.engine == "vllm" and last.role == "assistant" and not last.tool_calls
        return {
            **(_GOING_ON if going_on else {}),
            **{name: value for name, value in prompt.extra.items() if name not in own},
            **self._salt(),
        }

    def left_out(self, prompt: ModelRequest) -> tuple[str, ...]:
        """Return warnings for the fields of open models that the API lacks."""
        given = () if self.compatible else sorted(_OF_OPEN_MODELS & prompt.extra.keys())
        warnings = (f"{name} had no effect: {self.name} has nothing like it." for name in given)
        return tuple(AnswerWarning(each, "option") for each in warnings)

    async def send(self, client: Any, parameters: dict[str, Any], extra: dict[str, Any]) -> Any:
        """Start a stream of the SDK; a very long conversation bypasses its models."""
        known = {name: value for name, value in parameters.items() if name != GUIDED_JSON}
        if GUIDED_JSON in parameters:  # the SDK has no such argument
            extra = extra | {GUIDED_JSON: parameters[GUIDED_JSON]}
        import openai  # noqa: PLC0415 - imported long since
        from openai.types.chat import ChatCompletionChunk  # noqa: PLC0415 - as above

        stream_of = openai.AsyncStream[ChatCompletionChunk]
        stream = await post_very_long(client, "/chat/completions", {**known, **extra}, stream_of)
        if stream is not None:
            return stream
        known, long_lists = around_the_sdk(known)
        return await client.chat.completions.create(**known, extra_body={**long_lists, **extra} or None)

    def events(self, stream: Any) -> AsyncGenerator[Any]:
        """Return the events as plain JSON, unless a tool traces the SDK."""
        import openai  # noqa: PLC0415 - imported long since

        # Tools that trace the SDK return a stream of another type, and must see the SDK's events.
        if type(stream) is not openai.AsyncStream:
            return super().events(stream)
        return json_events(stream.response.aiter_bytes())

    def read(self, event: Any) -> Sequence[AnswerPiece]:
        """Parse an event of Chat Completions."""
        if event is None:
            return ()
        if isinstance(event, str):
            raise EventError(event)
        if (value_of(event, "choices") is None or value_of(event, "error")) and (error := _error_of(event)):
            raise EventError(error)
        extra = _extra(event)
        pieces = [_piece(choice, object_of(choice, "delta"), extra) for choice in objects_of(event, "choices")]
        usage = _usage(value_of(event, "usage"))
        return [*pieces, AnswerPiece(usage=usage)] if usage else pieces

    def read_whole(self, body: Mapping[str, Any]) -> Sequence[AnswerPiece]:
        """Parse an answer of Chat Completions that was not streamed."""
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
        return [AnswerPiece(usage=usage), *pieces] if usage else pieces


def _strict_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a strict tool in the form of strict mode, if it has one; a rejection is learned."""
    function = tool.get("function")
    if not (isinstance(function, dict) and function.get("strict")):  # so a thousand other tools cost no time
        return tool
    form = strict_form(given) if isinstance(given := function.get("parameters"), Mapping) else None
    return tool if form is None else {**tool, "function": {**function, "parameters": form}}


def _extra(response: Any) -> dict[str, str]:
    """Return the fields of a response that only the caller can use."""
    return {name: text for name in _EXTRA if isinstance(text := value_of(response, name), str)}


def _piece(choice: Any, message: Any, extra: Mapping[str, Any]) -> AnswerPiece:
    """Parse a choice; ``message`` is its message or delta."""
    finish = word_of_end(value_of(choice, "finish_reason"))
    if finish is not None and end_of(finish) == "failed" and (error := value_of(choice, "error")):
        raise EventError({"error": plain(error)})
    refusal = text_of(message, "refusal")  # the model's own words; the finish reason is only "stop"
    sound = value_of(message, "audio")
    content = content_of(message)
    thoughts = [Thought(name, name, text) for name in _THINKING if (text := words_of(value_of(message, name)))][:1]
    if content.thinking:
        thoughts.append(Thought("thinking", "thinking", content.thinking, listed=True))
    warnings = ["The answer was spoken: only its transcript is kept, not the sound."] if value_of(sound, "data") else []
    warnings += [f"The answer contains a part of type {kind!r}, which was left out." for kind in content.others]
    return AnswerPiece(
        text=refusal or content.text or content.refusal or word_of(sound, "transcript") or "",
        thinking="".join(thought.text for thought in thoughts),
        thoughts=tuple(thoughts),  # some servers send the same under both names
        finish=finish,
        stopped_by=word_of(choice, "stop_reason") or word_of(choice, "matched_stop"),  # vLLM's and SGLang's names
        refused=bool(refusal or content.refusal),
        logprobs=_logprobs(value_of(choice, "logprobs")),
        tool_calls=_calls(message),
        choice=_index(choice),
        extra=extra,
        annotations=[plain(each) for each in objects_of(message, "annotations")],
        warnings=tuple(warnings),
    )


def _index(choice: Any) -> int:
    """Return the index of a choice; 0 if it is missing or unreadable, -1 if it is impossible."""
    index = value_of(choice, "index")
    if index is None:
        return 0
    number = _number(index)
    return number if isinstance(number, int) else -1


def _calls(message: Any) -> tuple[CallPiece, ...]:
    calls = [_call(call) for call in objects_of(message, "tool_calls")]
    if (function := object_of(message, "function_call")) is not None:  # from the API before tools
        calls.append(_call_piece(function, "arguments", index="function_call"))
    return tuple(calls)


def _call(call: Any) -> CallPiece:
    own = object_of(call, "custom")
    function, field = (object_of(call, "function"), "arguments") if own is None else (own, "input")
    fields = call if isinstance(call, Mapping) else getattr(call, "model_extra", None) or {}
    extra = {name: value for name, value in fields.items() if name not in _OF_A_CALL and value is not None}
    return _call_piece(
        function,
        field,
        index=_number(value_of(call, "index")),
        id=word_of(call, "id"),
        type="function" if own is None else "custom",
        extra=extra,
    )


def _call_piece(function: Any, field: str, **known: Any) -> CallPiece:
    given = value_of(function, field)
    if given is not None and not isinstance(given, str):  # some servers send an object instead of JSON text
        given = json.dumps(plain(given))
    return CallPiece(name=word_of(function, "name"), arguments=given or "", **known)


def _number(index: Any) -> int | str | None:
    """Return the index of a call; ``None`` if there is none."""
    if isinstance(index, str):
        return int(index) if index.isdecimal() and len(index) < _LONG else index or None
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _error_of(event: Any) -> Any:
    """Return an event without choices if it says something: an error in the server's own format."""
    event = plain(event)
    if is_error(event):
        return event
    named = isinstance(event, Mapping) and any(event.get(name) for name in ("error", "message", "detail"))
    return event if named else None


def _logprobs(reported: Any) -> tuple[TokenLogprob, ...]:
    """Parse log-probabilities, leaving out invalid ones."""
    listed = value_of(reported, "content")
    read = (_logprob(each) for each in listed) if isinstance(listed, list) else ()
    return tuple(each for each in read if each is not None)


def _logprob(each: Any) -> TokenLogprob | None:
    token, logprob, alternatives = (value_of(each, name) for name in ("token", "logprob", "top_logprobs"))
    if not isinstance(token, str) or not isinstance(logprob, (int, float)):
        return None
    pairs = [(value_of(other, "token"), value_of(other, "logprob")) for other in alternatives or ()]
    return TokenLogprob(
        token=fix_surrogates(token),
        logprob=logprob,
        top=tuple(
            (fix_surrogates(word), value)
            for word, value in pairs
            if isinstance(word, str) and isinstance(value, (int, float))
        ),
    )


def _usage(counted: Any) -> Usage | None:
    prompt, completion = count_of(counted, "prompt_tokens"), count_of(counted, "completion_tokens")
    if prompt is None and completion is None:
        return None
    written = value_of(counted, "completion_tokens_details")
    return Usage(
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
        cached_tokens=count_of(value_of(counted, "prompt_tokens_details"), "cached_tokens") or 0,
        reasoning_tokens=count_of(written, "reasoning_tokens") or 0,
        discarded_tokens=count_of(written, "rejected_prediction_tokens") or 0,
    )


def openai_counter(model: str) -> Callable[[str], int] | None:
    """Return a function that counts the tokens of a text; ``None`` if tiktoken would have to download something."""
    try:
        import tiktoken  # noqa: PLC0415 - optional: without it tokens are estimated
    except ImportError:
        return None
    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        name = _LATEST  # that of all models newer than this tiktoken
    if not _on_disk(name):
        return None
    encoding = tiktoken.get_encoding(name)

    def count(text: str) -> int:
        parts = (text[at : at + _AT_ONCE] for at in range(0, len(text), _AT_ONCE))
        return sum(len(encoding.encode_ordinary(part)) for part in parts)

    return count


def _on_disk(name: str) -> bool:
    """Return whether tiktoken has this encoding in its cache, where it looks before it downloads."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir(), "data-gym-cache"))
    key = hashlib.sha1(_FILES.format(name).encode(), usedforsecurity=False).hexdigest()
    return bool(folder) and Path(folder, key).is_file()


@asynccontextmanager
async def fetching(key: str, base_url: str) -> AsyncGenerator[Fetch]:
    """Yield a function that requests URLs below this address with this key and the address's query parameters.

    Its connections are closed when the context exits.
    """
    import openai  # noqa: PLC0415 - imported on first use: it takes 0.4 s

    library = http_library(openai)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    _, query = without_query(base_url)
    proxy = proxy_to(base_url)

    async def fetch(url: str, body: Mapping[str, Any] | None = None) -> Page | None:
        how = ("GET", None) if body is None else ("POST", dict(body))
        read = bytearray()
        try:
            async with client.stream(how[0], with_query(url, query), json=how[1], headers=headers) as response:
                async for piece in response.aiter_bytes():
                    read += piece
                    if len(read) > _MOST:
                        return Page(413, {}, b"")
        except (library.HTTPError, library.InvalidURL, OSError):
            return None
        return Page(
            response.status_code, {name.lower(): value for name, value in response.headers.items()}, bytes(read)
        )

    async with async_client(openai, proxy.url if proxy else None) as client:
        yield fetch
