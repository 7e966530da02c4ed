"""What a backend is: something that streams text for a prompt and reports what it can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, runtime_checkable

import anyio

from stretto.values.answer import Usage
from stretto.values.request import GenerationOptions, Message
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCallFragment

P = ParamSpec("P")
R = TypeVar("R")
_ASKING_S = 1.0
_ASKING_SHARE = 0.1  # of the time that an answer may take


@dataclass(frozen=True, slots=True)
class Measured:
    """What a local engine has measured about itself in this process.

    Provisional: it may change in any release.

    Attributes:
        step_ms: milliseconds of a forward pass by its rows, for a single request, or by the number of requests that ran
            together if rows were not timed yet; empty before any measurement.
        decodings: how each decoding method has done so far for the current tenant, weighted towards recent answers.
    """

    step_ms: Mapping[int, float] = field(default_factory=dict)
    decodings: Mapping[str, DecodingStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stages:
    """When a call to a local model reached each stage before its first text.

    Provisional: it may change in any release.

    In seconds of `time.perf_counter`; ``None`` for a stage not yet reached.

    Attributes:
        loaded_s: the model was loaded.
        prepared_s: the prompt was tokenised, and what the call needed was ready: a grammar, an adapter.
        submitted_s: the call was in the engine's queue.
        admitted_s: the call had a slot, and prefill began.
        prompt_read_s: prefill was complete.
        first_token_s: the first token was chosen; its text can be withheld for a while.
    """

    loaded_s: float | None = None
    prepared_s: float | None = None
    submitted_s: float | None = None
    admitted_s: float | None = None
    prompt_read_s: float | None = None
    first_token_s: float | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, known without loading a model or opening a connection.

    Attributes:
        context_window: the most tokens of prompt and answer together.
        json_schema: whether answers can be constrained to a JSON schema.
        schema_in_words: whether the messages must state a schema as well: the server constrains the answer by it, but
            does not show it to the model.
        regex: whether answers can be constrained to a regular expression.
        logprobs: whether log-probabilities can be requested.
        predictions: whether it accepts a text that the answer might resemble (`ModelRequest.draft`); tokens of it that
            do not come back are charged like generated ones.
        reasoning: whether the model thinks before it answers and accepts an effort.
        concurrent_calls: calls that run concurrently without slowing each other down.
        calls_reported: whether its server reports that number, so a late call among no more did not wait for its turn.
        prompt_cache_minimum: prompt tokens from which a shared prefix is cached, if at all.
        prefix_caching: whether its server reads the common beginning of prompts only once. ``None``: not known.
        speculation: whether its server drafts tokens and verifies them. ``None``: not known.
        prompt_family: family of prompt templates that suit this model.
        names: whether speakers can be distinguished by `Message.name`.
        tools: whether it accepts tools, and calls them.
        media: whether it reads message parts other than text: images, audio, files.
        refused_media: types of such parts that its server reports as unsupported, for instance ``image_url``.
        choices: whether it writes multiple answers in one call, ``ModelRequest.n``. False: the library sends one call
            for each.
        reads_history: whether the model understands earlier turns. False: it only gets the question.
        continues: whether it continues an assistant turn at the end of the messages exactly where it stops.
        passage_tokens: length in tokens up to which the model reads well; longer documents are split into passages of
            that size. ``None`` if only its context window limits them.
        beyond_window: whether it answers prompts longer than its window; the question must come at their end.
        decodings: decoding methods of a local engine, best first.
        decoding: the decoding method chosen when the backend was created; ``None`` leaves it to the router.
        adapters: names of the adapters that a local engine has for its model, for ``GenerationOptions.adapter``.
    """

    context_window: int | None = None
    json_schema: bool = False
    schema_in_words: bool = False
    regex: bool = False
    logprobs: bool = False
    predictions: bool = False
    reasoning: bool = False
    concurrent_calls: int = 16
    calls_reported: bool = False
    prompt_cache_minimum: int | None = None
    prefix_caching: bool | None = None
    speculation: bool | None = None
    prompt_family: str = "general"
    names: bool = False
    tools: bool = False
    media: bool = False
    refused_media: tuple[str, ...] = ()
    choices: bool = False
    reads_history: bool = True
    continues: bool = False
    passage_tokens: int | None = None
    beyond_window: bool = False
    decodings: tuple[str, ...] = ()
    decoding: str | None = None
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenPaths:
    """Consecutive parts of an assistant turn that were written concurrently, in characters.

    Provisional: it may change in any release.

    Attributes:
        begin: where the first path begins.
        ends: where each path ends; the next one begins there.
        beside: whether all paths keep the positions they were written at; otherwise their positions are consecutive.
    """

    begin: int
    ends: tuple[int, ...]
    beside: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The contents of one call.

    Attributes:
        messages: the conversation, system message first. An assistant turn at its end is to be continued.
        effort: reasoning effort for models that accept one; ``None`` leaves it to the model.
        response_schema: JSON schema of the answer. Backends without ``json_schema`` can ignore it: the messages state
            it as well.
        in_words: system messages that state the schema, sent instead of those in ``messages`` if a server refuses it;
            empty: ``messages`` already state it; ``None``: it cannot be left out.
        strict: the caller's choice of the schema's strict mode; ``None``: it is used if the schema allows it.
        response_regex: regular expression that the whole answer matches, for backends with ``regex``.
        shared: length in characters of the beginning of the last message that other calls of the same answer share,
            along with all messages before it. One of those calls might already be running, so the shared part is worth
            caching if a provider caches only on request.
        tools: functions that the model can call, in OpenAI's format, for backends with ``tools``.
        tool_choice: "auto", "none", "required", or the one to call, in OpenAI's format.
        n: how many answers to write, for backends with ``choices``.
        extra: other fields of the body, passed on unchanged.
        reads: whether it contains text of documents, for which a local model can have a special adapter.
        paths: forks of the last message, a turn to continue. A local model arranges its KV cache for these paths one
            after the other; other backends read the message unchanged.
        draft: text that the answer might resemble. A local model drafts from it and verifies every token, so the answer
            does not change; a server with ``predictions`` does the same.
    """

    messages: tuple[Message, ...]
    effort: Literal["low"] | None = None
    response_schema: Mapping[str, Any] | None = None
    in_words: tuple[Message, ...] | None = None
    strict: bool | None = None
    response_regex: str | None = None
    shared: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    n: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)
    reads: bool = False
    paths: tuple[WrittenPaths, ...] = ()
    draft: str = ""

    @property
    def worded(self) -> ModelRequest:
        """The same request with its schema in words only."""
        others = (message for message in self.messages if message.role != "system")
        messages = (*self.in_words, *others) if self.in_words else self.messages
        return replace(self, messages=messages, response_schema=None)

    @property
    def prefix(self) -> str:
        """The text that other calls of the same answer also begin with; empty without ``shared``."""
        if not self.shared:
            return ""
        *before, last = (f"{message.role}: {message.content}" for message in self.messages)
        return "\n\n".join([*before, last[: len(self.messages[-1].role) + 2 + self.shared]])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: text, usage and tool calls to add up, or the finish reason.

    Text can come in pieces of any size, and an empty chunk is a sign of life. The chunk that completes the answer has a
    ``finish_reason``, and only the usage can follow it. A stream without a finish reason was broken off, and counts as
    failed.

    Attributes:
        text: new text; the concatenation of all of them is the generated text.
        usage: tokens and calls since the last chunk with a usage; all of them are added up. Most streams have one, at
            the end, with ``calls=1``.
        finish_reason: "stop" (complete), "length" (cut at ``max_tokens`` or the context window), "tool_calls" (the
            model waits for their results), "refusal" (by the model), "content_filter" (by its server). Each choice has
            one.
        headers: response headers with rate limits, for `stretto.backends.resilience.rate_limiter`.
        decoding: how a local engine produced the tokens.
        logprobs: if requested, in the order of the tokens, but not always in the same chunk as their text.
        stages: the stages that a local model has reached before the first text; the last value counts.
        warnings: sentences for the caller, passed on in ``Answer.warnings``.
        thinking: whether the model has thought, which is not shown.
        held: whether text has arrived that is withheld until it is known not to be part of a thought.
        tool_calls: pieces of the calls that the model requests.
        thoughts: what the model has thought, complete, as parts of its turn in its server's format.
        stop_text: the stop text that ended the answer, if known; with the finish reason.
        refused: whether the text is a refusal in the model's own words, marked as such by its server.
        unheld: keywords of ``ModelRequest.response_schema`` that do not constrain the text, from a backend that
            constrains answers to their format (``Capabilities.regex``); with the first chunk. Such an answer is shown
            only after it was checked.
        extra: other fields of the response, for ``Answer.extra``, collected from all chunks.
        choice: which of ``ModelRequest.n`` answers the text, tool calls, log-probabilities and finish reason belong to.
    """

    text: str = ""
    usage: Usage | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "refusal", "content_filter"] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    decoding: DecodingStats | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    warnings: tuple[str, ...] = ()
    thinking: bool = False
    held: bool = False
    stages: Stages | None = None
    tool_calls: tuple[ToolCallFragment, ...] = ()
    thoughts: tuple[Mapping[str, Any], ...] = ()
    refused: bool = False
    stop_text: str | None = None
    unheld: tuple[str, ...] = ()
    choice: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_answer(self) -> bool:
        """Whether it contains part of the answer: text or a piece of a tool call."""
        return bool(self.text or self.tool_calls)

    @property
    def is_progress(self) -> bool:
        """Whether the answer has made progress. Any other chunk is a sign of life, of which there can be many."""
        return bool(self.is_answer or self.thinking or self.held or self.finish_reason)


@runtime_checkable
class Backend(Protocol):
    """A text generator: a provider, a model in this process, or a wrapper that adds behaviour to another backend.

    Pass one in place of a model name: ``AsyncStretto(MyBackend())``. `stretto.testing.check_backend` tests one
    against this contract, and ``stretto.extending.resilient(backend)`` adds retries and limits.

    **Streams.** `stream` returns an async context manager, and entering it an async iterator of `Chunk`. It is
    entered, read and left in one task. Multiple streams run at the same time, up to
    ``capabilities.concurrent_calls`` of them; each belongs to one generation.

    **Around the yield.** A context manager can keep what it needs open around its ``yield``: a connection, a lock, a
    task group, a deadline. The iterator must not keep a task group or cancel scope open around a ``yield`` (PEP 789),
    so put these into the context manager.

    **Closing.** Leaving the context ends the generation and frees its resources before it returns: connection, tasks,
    server-side work, and the iterator, if it is an async generator (`contextlib.aclosing`). It is left early when the
    reader wants no more, on cancellation, and after an error. The caller closes the backend itself, by `aclose`.

    **Cancellation.** A cancellation can arrive at any ``await`` (anyio's, on asyncio). Let it propagate. Anything still
    to be awaited afterwards goes under ``anyio.CancelScope(shield=True)``, with a time limit.

    **Errors.** A failed call raises `BackendError` or a subclass, on entering or while iterating, and nothing else: not
    an exception group, and no exception of an SDK. Anything else is a bug in the backend, which ends the answer and
    reaches the caller unchanged. `BackendError.transient` says whether the same call could succeed later; only the
    library repeats calls, so a backend tries each once. Messages contain no keys.

    >>> class Shouting:
    ...     name = "own:shouting"
    ...     capabilities = Capabilities(context_window=8_000)
    ...
    ...     @asynccontextmanager
    ...     async def stream(
    ...         self, prompt: ModelRequest, options: GenerationOptions
    ...     ) -> AsyncIterator[AsyncIterator[Chunk]]:
    ...         async with aclosing(self._chunks(prompt)) as chunks:
    ...             yield chunks
    ...
    ...     async def _chunks(self, prompt: ModelRequest) -> AsyncGenerator[Chunk]:
    ...         words = prompt.messages[-1].content.upper().split()
    ...         for word in words:
    ...             yield Chunk(word + " ")
    ...         yield Chunk(usage=Usage(completion_tokens=len(words), calls=1), finish_reason="stop")
    ...
    ...     async def count_tokens(self, prompt: ModelRequest) -> int:
    ...         return sum(len(message.content) for message in prompt.messages) // 4 + 1
    ...
    ...     async def aclose(self) -> None:
    ...         pass
    """

    @property
    def name(self) -> str:
        """The model name, ``provider:model``. Shown in routes, errors and warnings."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do. Read several times for each request, so it must not load or connect to anything."""
        ...

    def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Start one generation.

        Args:
            prompt: what to send: the messages, and the requested format of the answer. Only what `capabilities`
                promises is requested.
            options: how to sample and when to stop. ``None`` leaves the choice to the backend. An option that cannot be
                honoured is named in ``Chunk.warnings``.

        Raises `BackendError`, on entering or while iterating.
        """
        ...

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Return the tokens of the prompt, at least 1; an estimate if the provider cannot count without a call."""
        ...

    async def aclose(self) -> None:
        """Free connections, threads and models. Idempotent; open streams end with a `BackendError`."""
        ...


class CountsText(Protocol):
    """A backend that can count the tokens of any text exactly, without a call; its counts are used to split documents.

    Provisional: it may change in any release.
    """

    async def text_counter(self) -> Callable[[str], int] | None:
        """Return a thread-safe function that counts the tokens of a text; ``None`` if they must be estimated."""
        ...


class AsksItsServer(Protocol):
    """A backend that can ask its server what it supports.

    Provisional: it may change in any release.
    """

    async def ask_server(self, within_s: float) -> None:
        """Ask it once, for at most this many seconds; `Backend.capabilities` knows more afterwards. Raises nothing."""
        ...


class LoadsAhead(Protocol):
    """A backend that can do in advance what its first call would wait for: load a model, import a library.

    Provisional: it may change in any release.
    """

    async def load_ahead(self) -> None:
        """Do it, once, without asking a server. `AsyncStretto.load` calls it. Raises `StrettoError`."""
        ...


class Forgets(Protocol):
    """A backend that learns from its calls, beyond what the library learns of it.

    Provisional: it may change in any release.
    """

    def forget_learned(self) -> None:
        """Forget that, for all users of the model in this process. `AsyncStretto.forget` calls it."""
        ...


class MeasuresItself(Protocol):
    """A backend that measures its own speed: a local engine.

    Provisional: it may change in any release.
    """

    def measured(self) -> Measured | None:
        """Return its measurements so far; ``None`` before its model is loaded."""
        ...


def method_of(backend: Backend, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R] | None:
    """Return a method of one of the protocols above if the backend, or the backend it wraps, has it."""
    # Not isinstance: since Python 3.12, a protocol does not see methods that wrappers delegate.
    found: Callable[P, R] | None = getattr(backend, method.__name__, None)
    return found


def measured_by(backend: Backend) -> Measured | None:
    """Return the measurements of a backend; ``None`` if it measures nothing, or has not yet."""
    measured = method_of(backend, MeasuresItself.measured)
    return None if measured is None else measured()


async def ask_servers(backends: Iterable[Backend], deadline_s: float | None = None) -> None:
    """Ask the servers that were not asked yet, concurrently, for a second or a tenth of the deadline.

    The capabilities of a server that does not answer in time stay unknown; it is asked again with a later request.
    """
    asking = [ask for each in backends if (ask := method_of(each, AsksItsServer.ask_server)) is not None]
    if not asking:
        return
    within_s = _ASKING_S if deadline_s is None else min(_ASKING_S, deadline_s * _ASKING_SHARE)
    first, *others = asking  # most clients have only one, which needs no task
    async with anyio.create_task_group() as tasks:
        for ask in others:
            tasks.start_soon(ask, within_s)
        await first(within_s)
