"""Any LangChain chat model, as a backend."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import SecretStr

from stretto.backends.allowance import Caller, calling
from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.ending import broken_off
from stretto.backends.known_models import NO_ROWS, Rows, bounded_output, capabilities_of, estimate_tokens
from stretto.backends.providers.bare_thoughts import expected_of
from stretto.backends.providers.call_pieces import CallPiece
from stretto.backends.providers.ends import word_of_end
from stretto.backends.providers.event_values import content_of
from stretto.backends.providers.failures import charge, failed_end, translate
from stretto.backends.providers.parameters import ParameterMemory
from stretto.backends.providers.pieces import AnswerPiece, IncomingAnswer, Thought
from stretto.backends.tenants import own_usage
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, RequestRejectedError, StreamBrokenError
from stretto.values.request import GenerationOptions

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackManager
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

run_of_branch: ContextVar[Callable[[Caller], Awaitable[BaseCallbackManager | None]] | None]
run_of_branch = ContextVar("stretto_run_of_branch", default=None)
"""Returns the callbacks for the calls of a branch, if the caller wants to see them."""

_CLOSING_S = 5.0
_PROVIDERS = {"openai-chat": "openai", "azure-openai-chat": "openai", "anthropic-chat": "anthropic"}
_FINISH = ("finish_reason", "stop_reason", "stopReason", "finishReason", "done_reason")
_ENDED = ("completed", "incomplete", "failed", "cancelled")  # values of the status of Responses


class LangChainBackend:
    """A ``BaseChatModel``, called by its own ``astream``: its callbacks, cache and rate limiter stay in effect.

    The model belongs to the caller and is not closed. Options are passed as keyword arguments, as
    LangChain's integrations expect. A model that reports no finish reason counts as complete. Only
    those of OpenAI and Anthropic, which always report one, can be found broken off.
    """

    def __init__(self, model: BaseChatModel, own_rows: Rows = NO_ROWS) -> None:
        self.model, self._own_rows = model, own_rows
        called = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
        self._name = f"langchain:{called}"
        self._provider = _PROVIDERS.get(model._llm_type)
        self._model = str(called)
        self._tagged = self._provider != "anthropic"
        self._bare = expected_of(self._model) if self._tagged else False
        known = capabilities_of(self._provider or "", self._model, own_rows)
        self._memory = ParameterMemory(self._model, own=own_rows)
        self._stream_usage = True if _takes(model, "stream_usage") else None
        # LangChain has no common way to request an effort or a schema while streaming.
        self._capabilities = replace(
            known, json_schema=False, reasoning=False, logprobs=False, names=False, choices=False
        )

    def __repr__(self) -> str:
        return f"<LangChainBackend {self.name}>"

    @property
    def name(self) -> str:
        """The model's own name after ``langchain:``."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model from its name."""
        return self._capabilities

    @property
    def retries_itself(self) -> bool:
        """Whether the model retries failed calls; if so, no other layer may."""
        return getattr(self.model, "max_retries", 0) != 0

    @asynccontextmanager
    async def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AsyncGenerator[AsyncGenerator[Chunk, None]]:
        """Send one call through the model."""
        chunks = self._chunks(prompt, options)
        try:
            yield chunks
        finally:
            with anyio.move_on_after(_CLOSING_S, shield=True):
                await chunks.aclose()

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Estimate the tokens; many models would load a tokenizer to count them."""
        return estimate_tokens(prompt)

    async def aclose(self) -> None:
        """Do nothing: the model belongs to the caller."""

    async def _chunks(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[Chunk, None]:
        messages, usage = await self._open(prompt, options)
        answer, failure = IncomingAnswer(options.stop, prompt=prompt if self._tagged else None, bare=self._bare), None
        yield Chunk(warnings=self._memory.warnings(self.name, options))
        try:
            async for message in messages:
                usage += own_usage(_usage(message.usage_metadata))
                if chunk := answer.take(_piece(message)):
                    yield chunk
                if answer.text.ended:
                    break
        except Exception as error:  # noqa: BLE001 - whatever the model raises becomes one of ours
            failure = self._failure(error, started=True)
        finally:
            await messages.aclose()
        if failure is None and answer.end is None:
            if self._provider:
                failure = broken_off(self.name)
            else:
                answer.end = "stop"
        if rest := answer.rest():
            yield rest
        self._bare = self._bare if answer.bare is None else answer.bare
        if failure is None and answer.end == "failed":
            failure = failed_end(self.name, answer.word)
        if failure is not None:
            charge(failure, usage)
            raise failure
        yield Chunk(
            usage=usage,
            finish_reason=answer.finish,
            stop_text=answer.stopped_by,
            warnings=answer.remarks(self.name),
        )

    async def _open(self, prompt: ModelRequest, options: GenerationOptions) -> tuple[_Pieces, Usage]:
        """Start a stream and read its first chunk, without the parameters that the model rejects."""
        calls = 0
        while True:
            arguments = self._memory.fit(self._arguments(options)) | dict(prompt.extra)
            calls += 1
            try:
                pieces: Any = self._bound(prompt).astream(_messages(prompt), await _config(), **arguments)
                return _Pieces(await anext(pieces), pieces), Usage(calls=calls)
            except StopAsyncIteration:
                failure: BackendError = StreamBrokenError(f"{self.name} sent nothing. Ask again.", backend=self.name)
            except Exception as error:  # noqa: BLE001 - whatever the model raises becomes one of ours
                failure = self._failure(error, started=False)
            self._memory.repeat_without(failure, arguments, Usage(calls=calls))

    def _bound(self, prompt: ModelRequest) -> Runnable[Any, Any]:
        """Return the model with the tools of the prompt bound."""
        if not prompt.tools:
            return self.model
        choice = {} if prompt.tool_choice is None else {"tool_choice": prompt.tool_choice}
        try:
            return self.model.bind_tools([dict(tool) for tool in prompt.tools], **choice)  # type: ignore[arg-type]  # a mapping is OpenAI's form, which all models read
        except NotImplementedError:
            raise RequestRejectedError(
                f"{self.name} takes no tools. Leave them out, or use another model.", backend=self.name
            ) from None

    def _failure(self, error: Exception, *, started: bool) -> BackendError:
        secrets = [value.get_secret_value() for value in vars(self.model).values() if isinstance(value, SecretStr)]
        return translate(error, self.name, *secrets, started=started)

    def _arguments(self, options: GenerationOptions) -> dict[str, Any]:
        given = {
            "max_tokens": bounded_output(self._provider or "", self._model, options.max_tokens, self._own_rows),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "seed": options.seed,
            "stop": list(options.stop) or None,
            "stream_usage": self._stream_usage,
        }
        return {name: value for name, value in given.items() if value is not None}


def _takes(model: BaseChatModel, argument: str) -> bool:
    """Return whether a stream of the model accepts an argument; a field of that name alone is no sign of it."""
    streams = [vars(kind).get(name) for kind in type(model).__mro__ for name in ("_astream", "_stream")]
    return any(argument in inspect.signature(each).parameters for each in streams if each is not None)


async def _config() -> RunnableConfig | None:
    """Return the callbacks of the branch that a call belongs to."""
    callbacks_of, caller = run_of_branch.get(), calling()
    callbacks = await callbacks_of(caller) if callbacks_of is not None and caller is not None else None
    return None if callbacks is None else {"callbacks": callbacks}


class _Pieces:
    """The first chunk of a model's stream, then the others."""

    def __init__(self, first: AIMessageChunk, rest: AsyncGenerator[AIMessageChunk, None]) -> None:
        self._first: AIMessageChunk | None = first
        self._rest = rest

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> AIMessageChunk:
        first, self._first = self._first, None
        return first if first is not None else await anext(self._rest)

    async def aclose(self) -> None:
        await self._rest.aclose()


def _messages(prompt: ModelRequest) -> list[BaseMessage]:
    from langchain_core.messages import convert_to_messages  # noqa: PLC0415 - imported on first use

    return convert_to_messages([message.as_openai() for message in prompt.messages])


def _piece(message: AIMessageChunk) -> AnswerPiece:
    """Parse a chunk of a message, or a whole one."""
    content = content_of(message)
    spoken = message.additional_kwargs.get("reasoning_content")  # from integrations of thinking models
    thoughts = list(_signed(message.content))
    thinking = content.thinking if not thoughts else ""
    if thinking := thinking or (spoken if isinstance(spoken, str) else ""):
        thoughts.append(Thought("reasoning_content", "reasoning_content", thinking))
    refusal = message.additional_kwargs.get("refusal")
    refusal = content.refusal or (refusal if isinstance(refusal, str) else "")
    return AnswerPiece(
        text=content.text or refusal,
        thinking="".join(each.text for each in thoughts),
        thoughts=tuple(thoughts),
        refused=bool(refusal),
        finish=_finish(message.response_metadata),
        tool_calls=_calls(message),
    )


def _signed(content: str | list[Any]) -> Iterator[Thought]:
    """Yield the thoughts in Anthropic's blocks, which it needs back with their signature."""
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    for place, block in enumerate(blocks):
        if block.get("type") == "thinking" and isinstance(block.get("thinking", ""), str):
            given_index = block.get("index")
            index = given_index if isinstance(given_index, int) else place
            for field in ("thinking", "signature"):
                if text := block.get(field):
                    yield Thought("thinking", field, str(text), index)


def _calls(message: AIMessageChunk) -> tuple[CallPiece, ...]:
    """Return the pieces of tool calls; a model that does not stream returns them whole."""
    if chunks := getattr(message, "tool_call_chunks", None):
        return tuple(
            CallPiece(chunk.get("index"), chunk.get("id") or None, chunk.get("name") or None, chunk.get("args") or "")
            for chunk in chunks
        )
    whole = [CallPiece(None, call.get("id"), call["name"], json.dumps(call["args"])) for call in message.tool_calls]
    unread = [
        CallPiece(None, call.get("id"), call.get("name"), call.get("args") or "") for call in message.invalid_tool_calls
    ]
    return (*whole, *unread)


def _usage(counted: Mapping[str, Any] | None) -> Usage:
    if not counted:
        return Usage()
    return Usage(
        prompt_tokens=counted.get("input_tokens", 0),
        completion_tokens=counted.get("output_tokens", 0),
        cached_tokens=counted.get("input_token_details", {}).get("cache_read", 0),
        cache_write_tokens=counted.get("input_token_details", {}).get("cache_creation", 0),
        reasoning_tokens=counted.get("output_token_details", {}).get("reasoning", 0),
    )


def _finish(metadata: Mapping[str, Any]) -> str | None:
    """Return the finish reason; that of OpenAI's Responses is a status, with the reason for an incomplete answer."""
    reasons = (word_of_end(metadata.get(name)) for name in _FINISH)
    if word := next(filter(None, reasons), None):
        return word
    status = word_of_end(metadata.get("status"))
    details = metadata.get("incomplete_details")
    why = word_of_end(details.get("reason")) if isinstance(details, Mapping) else None
    return why or status if status in _ENDED else None
