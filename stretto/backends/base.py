"""What a backend is: something that streams text for a prompt and says what it can do."""

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
    """What a local engine has measured of itself in this process.

    Provisional: it may change in any release.

    Attributes:
        step_ms: milliseconds of a forward by its rows, for one request alone, or by the requests that ran together
            where rows were not timed yet; empty while not measured.
        decodings: how each decoding method has done so far for whoever asks, the last answers counting most.
    """

    step_ms: Mapping[int, float] = field(default_factory=dict)
    decodings: Mapping[str, DecodingStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stages:
    """When a call of a local model came to each stage before its first text.

    Provisional: it may change in any release.

    In seconds of `time.perf_counter`; ``None`` for a stage that it has not come to.

    Attributes:
        loaded_s: the model was loaded.
        prepared_s: the prompt was made into tokens, and what the call needs was ready: a grammar, an adapter.
        submitted_s: the call was in the engine's queue.
        admitted_s: it had a slot, and the engine began to read its prompt.
        prompt_read_s: the prompt was read.
        first_token_s: the first token was chosen; its text may be held back a while.
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
        context_window: tokens that prompt and answer may fill together.
        json_schema: answers can be constrained to a JSON schema.
        schema_in_words: the messages have to tell a schema as well: the server constrains the answer by it, and does
            not show it to the model.
        regex: answers can be constrained to a regular expression.
        logprobs: log-probabilities can be asked for.
        predictions: takes a text that the answer may resemble (`ModelRequest.draft`); tokens of it that do not come
            back are paid for like written ones.
        reasoning: the model thinks before it answers and takes an effort.
        concurrent_calls: calls that run side by side without slowing each other.
        calls_reported: its server reports that number: a call that is late among no more did not wait for its turn.
        prompt_cache_minimum: prompt tokens from which a shared prefix is cached, if at all.
        prefix_caching: its server reads the common beginning of prompts only once. ``None``: not known.
        speculation: its server drafts tokens and verifies them. ``None``: not known.
        prompt_family: family of prompt templates this model understands.
        names: speakers can be told apart by `Message.name`.
        tools: takes tools, and calls them.
        media: reads parts of messages that are not text: images, sound, files.
        refused_media: types of such parts that its server says it does not take, ``image_url`` for instance.
        choices: writes several answers in one call, ``ModelRequest.n``. False: the library sends one call for each.
        reads_history: the model understands earlier turns. False: it is shown the question alone.
        continues: it goes on exactly where a turn of the assistant at the end of the messages stops.
        passage_tokens: tokens of a text up to which the model reads well; longer documents are cut into passages of
            that size. ``None`` if only its window limits them.
        beyond_window: it answers prompts that are longer than its window; the question has to stand at their end.
        decodings: decoding methods of a local engine, best first.
        decoding: the one that was chosen when the backend was made; ``None`` leaves it to the router.
        adapters: names of the adapters that a local engine has beside its model, for ``GenerationOptions.adapter``.
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
    """Neighbouring parts of a turn of the assistant that were written side by side, in characters.

    Provisional: it may change in any release.

    Attributes:
        begin: of the first path.
        ends: of each path; the next one begins there.
        beside: all paths have the positions that they were written at; otherwise those behind each other.
    """

    begin: int
    ends: tuple[int, ...]
    beside: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What one call sends.

    Attributes:
        messages: the conversation, system message first. A turn of the assistant at its end is one to go on with.
        effort: reasoning effort for models that take one; ``None`` leaves the model's own.
        response_schema: JSON schema of the answer. Backends without ``json_schema`` may leave it out: the messages tell
            it as well.
        in_words: system messages that tell the schema, sent instead of those in ``messages`` where a server refuses it;
            empty: ``messages`` tell it as they are; ``None``: it cannot be left out.
        strict: what the caller said of the schema's strict mode; ``None``: it is used where the schema allows it.
        response_regex: regular expression that the whole answer matches, for backends with ``regex``.
        shared: length in characters of the beginning of the last message that other calls of the same answer share, as
            well as all messages before it. One of those calls may be under way already, so the shared part is worth
            caching where a provider has to be asked for that.
        tools: functions that the model may call, in OpenAI's form, for backends with ``tools``.
        tool_choice: "auto", "none", "required", or the one to call, in OpenAI's form.
        n: how many answers to write, for backends with ``choices``.
        extra: other fields of the body, passed on as they are.
        reads: it shows text of documents, for which a local model may have a special adapter.
        paths: forks of the last message, a turn to go on with. A local model places what it knows of the paths behind
            each other, and other backends read the message as it is.
        draft: text that the answer may resemble. A local model drafts from it and verifies every token, so the answer
            stays what it would be; a server with ``predictions`` does the same.
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
        """The same with its schema in words only."""
        others = (message for message in self.messages if message.role != "system")
        messages = (*self.in_words, *others) if self.in_words else self.messages
        return replace(self, messages=messages, response_schema=None)

    @property
    def prefix(self) -> str:
        """The text that other calls of the same answer begin with too; empty without ``shared``."""
        if not self.shared:
            return ""
        *before, last = (f"{message.role}: {message.content}" for message in self.messages)
        return "\n\n".join([*before, last[: len(self.messages[-1].role) + 2 + self.shared]])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a stream: text, tokens and calls to add up, or the reason for the end.

    Text may come in pieces of any size, and an empty chunk is a sign of life. The chunk that completes the answer
    carries ``finish_reason``, and only the usage may follow it. A stream without a finish reason was broken off, and is
    treated as failed.

    Attributes:
        text: new text; all of them concatenated are what was generated.
        usage: tokens and calls since the last chunk that had a usage; all of them are added up. Most streams have
            one, at the end, with ``calls=1``.
        finish_reason: "stop" (complete), "length" (cut at ``max_tokens`` or the context window), "tool_calls" (the
            model waits for their results), "refusal" (by the model), "content_filter" (by its server). Each choice has
            one.
        headers: response headers with rate limits, for `stretto.backends.resilience.rate_limiter`.
        decoding: how a local engine found the tokens.
        logprobs: where they were asked for, in the order of the tokens, not always beside their text.
        stages: what a local model knows so far of the way to the first text; the last one counts.
        warnings: sentences for the caller, passed on in ``Answer.warnings``.
        thinking: the model has thought, which is not shown.
        held: text has come that is kept back until it is known to be none of a thought.
        tool_calls: pieces of the calls that the model asks for.
        thoughts: what the model has thought, whole, as parts of its turn in the form of its server.
        stop_text: the stop text that ended the answer, where that is known; with the finish reason.
        refused: the text is a refusal in the model's own words, told apart by its server.
        unheld: keywords of ``ModelRequest.response_schema`` that the text is not held to, of a backend that holds
            answers to their format (``Capabilities.regex``); with the first chunk. Such an answer is shown after its
            check.
        extra: other fields of the response, for ``Answer.extra``; those of all chunks together count.
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
        """Whether it holds something of the answer: text, a piece of a tool call."""
        return bool(self.text or self.tool_calls)

    @property
    def is_progress(self) -> bool:
        """Whether the answer has made progress. Any other chunk is a sign of life, of which there may be many."""
        return bool(self.is_answer or self.thinking or self.held or self.finish_reason)


@runtime_checkable
class Backend(Protocol):
    """Generates text: a provider, a model in this process, or a wrapper that adds behaviour to another backend.

    Pass one where a model name can stand: ``AsyncStretto(MyBackend())``. `stretto.testing.check_backend` tests one
    against this contract, and ``stretto.extending.resilient(backend)`` adds retries and limits.

    **Streams.** `stream` returns an async context manager, and entering it an async iterator of `Chunk`. It is
    entered, read and left in one task. Several streams run at the same time, up to
    ``capabilities.concurrent_calls`` of them; each belongs to one generation.

    **Around the yield.** A context manager may hold what it needs around its ``yield``: a connection, a lock, a task
    group, a deadline. The iterator must not hold a task group or cancel scope around a ``yield`` (PEP 789), so put
    these into the context manager.

    **Closing.** Leaving the context ends the generation and frees what it holds, before it returns: connection, tasks,
    server-side work, and the iterator, if it is an async generator (`contextlib.aclosing`). It is left early when the
    reader wants no more, at a cancellation, and after an error. The caller closes the backend itself, by `aclose`.

    **Cancellation.** At any ``await``, a cancellation may arrive (anyio's, on asyncio). Let it pass. What must still be
    awaited after it goes under ``anyio.CancelScope(shield=True)``, with a time limit.

    **Errors.** A failed call raises `BackendError` or one of its children, on entering or while iterating, and nothing
    else: not an exception group, and no exception of an SDK. Anything else is a mistake of the backend, which ends the
    answer and reaches the caller as it is. `BackendError.transient` says whether the same call may
    succeed later; only the library repeats calls, so a backend tries each once. Messages hold no keys.

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
        """What it can do. Read several times for each request: it loads nothing and connects to nothing."""
        ...

    def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Start one generation.

        Args:
            prompt: what to send: the messages, and what was asked of the answer's form. Only what `capabilities`
                promises is asked for.
            options: how to sample and when to stop. ``None`` leaves the choice to the backend. An option that cannot
                be honoured is named in ``Chunk.warnings``.

        Raises `BackendError`, on entering or while iterating.
        """
        ...

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Tokens of the prompt, at least 1; an estimate where the provider offers no count without a call."""
        ...

    async def aclose(self) -> None:
        """Free connections, threads and models. Idempotent; streams still open end with a `BackendError`."""
        ...


class CountsText(Protocol):
    """A backend that can count the tokens of any text exactly, without a call; documents are cut by its counts.

    Provisional: it may change in any release.
    """

    async def text_counter(self) -> Callable[[str], int] | None:
        """A function that counts the tokens of a text, in any thread; ``None`` where it must be estimated."""
        ...


class AsksItsServer(Protocol):
    """A backend whose server can be asked what it is able to do.

    Provisional: it may change in any release.
    """

    async def ask_server(self, within_s: float) -> None:
        """Ask it once, for at most this many seconds: `Backend.capabilities` knows more afterwards. Raises nothing."""
        ...


class LoadsAhead(Protocol):
    """A backend that can do ahead of its first call what that would wait for: load a model, import a library.

    Provisional: it may change in any release.
    """

    async def load_ahead(self) -> None:
        """Do it, asking no server; nothing where it is done. `AsyncStretto.load` calls it. Raises `StrettoError`."""
        ...


class Forgets(Protocol):
    """A backend that learns from its calls, beyond what the library learns of it.

    Provisional: it may change in any release.
    """

    def forget_learned(self) -> None:
        """Forget that, for everybody who uses the model in this process. `AsyncStretto.forget` calls it."""
        ...


class MeasuresItself(Protocol):
    """A backend that measures its own speed: a local engine.

    Provisional: it may change in any release.
    """

    def measured(self) -> Measured | None:
        """What it has measured so far; ``None`` before its model is loaded."""
        ...


def method_of(backend: Backend, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R] | None:
    """A method of one of the protocols above, where a backend has it, or what it wraps."""
    # Not isinstance: what wrappers pass on, a protocol does not see since Python 3.12.
    found: Callable[P, R] | None = getattr(backend, method.__name__, None)
    return found


def measured_by(backend: Backend) -> Measured | None:
    """What a backend has measured of its speed; ``None`` where it measures nothing, or has not yet."""
    measured = method_of(backend, MeasuresItself.measured)
    return None if measured is None else measured()


async def ask_servers(backends: Iterable[Backend], deadline_s: float | None = None) -> None:
    """Ask the servers that were not asked yet, all at the same time, for a second or a tenth of the deadline.

    If a server does not answer in that time, its abilities stay unknown; it is asked again with a later request.
    """
    asking = [ask for each in backends if (ask := method_of(each, AsksItsServer.ask_server)) is not None]
    if not asking:
        return
    within_s = _ASKING_S if deadline_s is None else min(_ASKING_S, deadline_s * _ASKING_SHARE)
    first, *others = asking  # most clients have one, which needs no task
    async with anyio.create_task_group() as tasks:
        for ask in others:
            tasks.start_soon(ask, within_s)
        await first(within_s)
