"""What a backend is: something that streams text for a prompt and says what it can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from stretto.answer import Decoding, TokenLogprob, Usage
from stretto.request import GenerationOptions, Message


@dataclass(frozen=True, slots=True)
class Measured:
    """What a local engine has measured of itself in this process.

    Attributes:
        step_ms: milliseconds of a forward by its rows, for one request alone; empty while not measured.
        decodings: how each decoding method has done so far, the last answers counting most.
    """

    step_ms: Mapping[int, float] = field(default_factory=dict)
    decodings: Mapping[str, Decoding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, known without loading a model or opening a connection.

    Attributes:
        context_window: tokens that prompt and answer may fill together.
        json_schema: answers can be constrained to a JSON schema.
        regex: answers can be constrained to a regular expression.
        prefill: an answer can be continued from a started assistant turn.
        logprobs: log-probabilities can be asked for.
        reasoning: the model thinks before it answers and takes an effort.
        parallel_slots: calls that run side by side without slowing each other.
        prompt_cache_minimum: prompt tokens from which a shared prefix is cached, if at all.
        joins_running_batch: a call sent while others run starts at once. False: calls that belong
            together are sent together, after what they wait for is complete.
        prompt_family: family of prompt templates this model understands.
        reads_history: the model understands earlier turns. False: it is shown the question alone.
        decodings: decoding methods of a local engine, best first.
        decoding: the one of them that whoever made the backend has chosen; ``None`` leaves it to the router.
        measured: what the engine knows of its own speed; ``None`` before its model is loaded, and for other backends.
    """

    context_window: int | None = None
    json_schema: bool = False
    regex: bool = False
    prefill: bool = False
    logprobs: bool = False
    reasoning: bool = False
    parallel_slots: int = 16
    prompt_cache_minimum: int | None = None
    joins_running_batch: bool = True
    prompt_family: str = "general"
    reads_history: bool = True
    decodings: tuple[str, ...] = ()
    decoding: str | None = None
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one call sends.

    Attributes:
        messages: the conversation, system message first; the last one is the user's.
        effort: reasoning effort for models that take one; ``None`` leaves the model's own.
        response_schema: JSON schema of the answer, for backends with ``json_schema``.
        response_regex: regular expression that the whole answer matches, for backends with ``regex``.
        shared: characters of the last message with which other calls of the same answer begin too, after the same
            messages, and before which one of them is under way already: worth caching where that has to be asked for.
    """

    messages: tuple[Message, ...]
    effort: Literal["low"] | None = None
    response_schema: Mapping[str, Any] | None = None
    response_regex: str | None = None
    shared: int = 0

    @property
    def prefix(self) -> str:
        """All that other calls of the same answer begin with; empty if nothing is said of it."""
        if not self.shared:
            return ""
        *before, last = (f"{message.role}: {message.content}" for message in self.messages)
        return "\n\n".join([*before, last[: len(self.messages[-1].role) + 2 + self.shared]])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: text, accounts of tokens and of their decoding to add up, or the reason it ended.

    A stream that ends without a chunk that carries ``finish_reason`` was broken off. ``logprobs``, where they were
    asked for, come in the order of the tokens, not always beside their text; ``warnings`` are for the caller to read.
    """

    text: str = ""
    usage: Usage | None = None
    finish_reason: Literal["stop", "length", "refusal"] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    decoding: Decoding | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    warnings: tuple[str, ...] = ()


@runtime_checkable
class Backend(Protocol):
    """Generates text. Implemented by the providers, and by wrappers that add behaviour to one."""

    @property
    def name(self) -> str:
        """The model name, ``provider:model``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; loads nothing, connects to nothing."""
        ...

    def stream(self, prompt: Prompt, options: GenerationOptions) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Start one generation; leaving the context ends it and frees what it holds.

        Raises `BackendError`, on entering or while iterating.
        """
        ...

    async def count_tokens(self, prompt: Prompt) -> int:
        """Tokens of the prompt; an estimate where the provider offers no count without a call."""
        ...

    async def aclose(self) -> None:
        """Free connections, threads and models. Idempotent."""
        ...


@runtime_checkable
class CountsText(Protocol):
    """A backend that can count the tokens of any text exactly, without a call; documents are cut by its counts."""

    async def text_counter(self) -> Callable[[str], int]:
        """A function that counts the tokens of a text. It may be called in another thread."""
        ...
