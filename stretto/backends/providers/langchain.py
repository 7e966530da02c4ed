"""Any chat model of LangChain, as a backend."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import SecretStr

from stretto.answer import Usage
from stretto.backends.allowance import Caller, calling
from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows, bounded_output, capabilities_of, estimate_tokens
from stretto.backends.providers.failures import charge, translate
from stretto.backends.providers.incoming import IncomingText
from stretto.backends.providers.parameters import ParameterMemory
from stretto.errors import BackendError, RequestRejectedError, StreamBrokenError
from stretto.request import GenerationOptions
from stretto.tool_calls import ToolCallFragment

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackManager
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

run_of_branch: ContextVar[Callable[[Caller], Awaitable[BaseCallbackManager | None]] | None]
run_of_branch = ContextVar("stretto_run_of_branch", default=None)
"""Gives the callbacks for the calls of a branch, if the caller wants to see them."""

_CLOSING_S = 5.0
_PROVIDERS = {"openai-chat": "openai", "azure-openai-chat": "openai", "anthropic-chat": "anthropic"}
_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "refusal": "refusal",
    "safety": "refusal",
}


class LangChainBackend:
    """A ``BaseChatModel``, called by its own ``astream``: its callbacks, cache and limiter stay at work.

    The model belongs to the caller and is not closed. Options go on as keyword arguments, which is
    how LangChain's integrations take them. Models that do not say why they stopped are taken at
    their word; only those of OpenAI and Anthropic, which always say it, can be found broken off.
    """

    def __init__(self, model: BaseChatModel, own_rows: Rows = NO_ROWS) -> None:
        self.model, self._own_rows = model, own_rows
        called = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
        self._name = f"langchain:{called}"
        self._provider = _PROVIDERS.get(model._llm_type)
        self._model = str(called)
        known = capabilities_of(self._provider or "", self._model, own_rows)
        self._memory = ParameterMemory(self._model, own=own_rows)
        self._stream_usage = True if _takes(model, "stream_usage") else None
        # LangChain has no common way to ask for an effort or a schema while streaming.
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
        """What is known of the model by its name."""
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
        """Estimate the tokens; many models would load a tokenizer for a count."""
        return estimate_tokens(prompt)

    async def aclose(self) -> None:
        """Do nothing: the model belongs to the caller."""

    async def _chunks(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[Chunk, None]:
        pieces, usage = await self._open(prompt, options)
        text, finish, failure = IncomingText(options.stop), None, None
        called = False
        yield Chunk(warnings=self._memory.warnings(self.name, options))
        try:
            async for piece in pieces:
                usage += _usage(piece.usage_metadata)
                finish = _finish(piece.response_metadata) or finish
                certain = text.push(_text(piece.content))
                calls = _calls(piece)
                called = called or bool(calls)
                yield Chunk(text=certain, thinking=bool(piece.content) and not certain, tool_calls=calls)
                if text.ended:
                    finish = text.ended
                    break
        except Exception as error:  # noqa: BLE001 - whatever the model raises becomes one of ours
            failure = self._failure(error, started=True)
        finally:
            await pieces.aclose()
        if withheld := text.flush():
            yield Chunk(text=withheld)
        if failure is None and finish is None and self._provider:
            failure = StreamBrokenError(
                f"{self.name} ended its answer without a finish reason: it was cut off on the way. Ask again.",
                backend=self.name,
            )
        if failure is not None:
            charge(failure, usage)
            raise failure
        yield Chunk(usage=usage, finish_reason=finish or ("tool_calls" if called else "stop"))  # type: ignore[arg-type]  # the table holds only these

    async def _open(self, prompt: ModelRequest, options: GenerationOptions) -> tuple[_Pieces, Usage]:
        """Begin a stream and read its first piece, without the parameters that the model refuses."""
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
        """The model with the tools of the prompt."""
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
    """Whether a stream of the model takes an argument; a field of that name alone is no sign of it."""
    streams = [vars(kind).get(name) for kind in type(model).__mro__ for name in ("_astream", "_stream")]
    return any(argument in inspect.signature(each).parameters for each in streams if each is not None)


async def _config() -> RunnableConfig | None:
    """The callbacks of the branch that a call is made for."""
    asked, caller = run_of_branch.get(), calling()
    callbacks = await asked(caller) if asked is not None and caller is not None else None
    return None if callbacks is None else {"callbacks": callbacks}


class _Pieces:
    """The first piece of a model's stream, then the others."""

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


def _calls(piece: AIMessageChunk) -> tuple[ToolCallFragment, ...]:
    """Pieces of tool calls; a model that does not stream gives them whole."""
    if chunks := getattr(piece, "tool_call_chunks", None):
        return tuple(
            ToolCallFragment(
                index=place if chunk.get("index") is None else hash(chunk["index"]),  # some count by texts
                id=chunk.get("id") or None,
                name=chunk.get("name") or None,
                arguments=chunk.get("args") or "",
            )
            for place, chunk in enumerate(chunks)
        )
    return tuple(
        ToolCallFragment(place, call.get("id"), call["name"], json.dumps(call["args"]))
        for place, call in enumerate(piece.tool_calls)
    )


def _text(content: str | list[Any]) -> str:
    """Give the text of a message, which may be a list of blocks of many kinds."""
    if isinstance(content, str):
        return content
    blocks = (block if isinstance(block, Mapping) else {"type": "text", "text": block} for block in content)
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


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
    said = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    return _FINISH.get(str(said).lower(), "stop") if said else None
