"""What the backends that talk to an API through an SDK have in common: clients, keys, closing, errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import anyio
from pydantic import SecretStr

from stretto.answer import Usage
from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows, capabilities_of, estimate_tokens
from stretto.backends.providers.arrivals import Arrival, arriving
from stretto.backends.providers.event_values import EventError
from stretto.backends.providers.failures import charge, is_error, not_a_stream, read_json, translate
from stretto.backends.providers.headers import kept_headers
from stretto.backends.providers.http_clients import host_of, make_ready
from stretto.backends.providers.learned import learned
from stretto.backends.providers.parameters import ParameterMemory
from stretto.backends.providers.pieces import IncomingAnswer, Piece
from stretto.errors import AuthenticationError, BackendError, StreamBrokenError, missing
from stretto.foundation.bounds import is_long
from stretto.foundation.token_estimates import typical_tokens
from stretto.request import GenerationOptions

_CLOSING_S = 5.0
_AFTER_FINISH_S = 1.0  # for the usage, which servers send right after the finish reason


@dataclass(frozen=True, slots=True)
class Opened:
    """A call whose answer has begun."""

    stream: Any
    arrival: Arrival
    calls: int
    prompt: ModelRequest
    options: GenerationOptions
    warnings: tuple[str, ...] = ()


class RemoteBackend(ABC):
    """One model behind an API. Sends each call once: retries and limits are for ``resilient``.

    ``base_url`` is the address of a compatible server. The key of the environment goes to the
    provider, or to the address that the environment names, never to a ``base_url`` given here:
    for that one, pass ``api_key``. ``own_rows`` are a caller's of the table of models.
    Raises `MissingDependencyError` where the provider's SDK is not installed.
    """

    provider: ClassVar[str]
    sdk: ClassVar[str]  # the module to import before the first call
    default_url: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]
    lacks: ClassVar[frozenset[str]] = frozenset()  # options that the API has no parameter for

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, own_rows: Rows = NO_ROWS
    ) -> None:
        self.model = model
        package = self.sdk.partition(".")[0]
        if find_spec(package) is None:
            raise missing(self.name, package, package)
        self.compatible = base_url is not None
        key = api_key or (None if self.compatible else os.environ.get(self.key_variable, "").strip())
        self._key = SecretStr(key or "")
        self._url = base_url or os.environ.get(self.url_variable) or self.default_url
        self._capabilities = capabilities_of(self.provider, model, own_rows)
        self._learned = learned(self.provider, self._url.rstrip("/"), model)
        self._memory = ParameterMemory(model, self.lacks, self._learned, own_rows)
        self._own_rows = own_rows
        # Connections belong to the event loop that opened them; the generator closes them with it.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]]
        self._clients = WeakKeyDictionary()
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint}>"

    @property
    def name(self) -> str:
        """The model name, ``provider:model``."""
        return f"{self.provider}:{self.model}"

    @property
    def endpoint(self) -> str:
        """Host and port that calls go to."""
        return host_of(self._url)

    @property
    def address(self) -> tuple[str, str]:
        """Provider and whole address, which may hold a password: for comparing, not for showing."""
        return self.provider, self._url.rstrip("/")

    @property
    def at_provider(self) -> bool:
        """Whether calls go to the provider itself, whose list prices then hold."""
        return host_of(self._url) == host_of(self.default_url)

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model by its name."""
        return self._capabilities

    @asynccontextmanager
    async def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AsyncGenerator[AsyncGenerator[Chunk, None]]:
        """Send one call; the first chunk carries the headers, the last two the finish reason and the usage."""
        opened = await self._open(prompt, options)
        chunks = self._chunks(opened)
        try:
            yield chunks
        finally:
            with anyio.move_on_after(_CLOSING_S, shield=True):
                await chunks.aclose()
                await _close(opened.stream)

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Estimate the tokens of the prompt; a true count would be a call."""
        return estimate_tokens(prompt)

    async def aclose(self) -> None:
        """Close the connections; answers still under way end with a `BackendError`.

        Those of other event loops are closed by these, as soon as they run.
        """
        self._closed = True
        _, holding = self._clients.pop(asyncio.get_running_loop(), (None, None))
        if holding is not None:
            await holding.aclose()
        self._clients.clear()  # a generator that nobody refers to is closed by its own event loop

    @abstractmethod
    def _connect(self, key: str, url: str) -> Any:
        """Make an SDK client that does not retry."""

    @abstractmethod
    def _parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any]:
        """Give everything the call should send, by the API's names."""

    @abstractmethod
    async def _send(self, client: Any, parameters: dict[str, Any], extra: dict[str, Any]) -> Any:
        """Begin a stream; the result is the SDK's. ``extra`` goes into the body as it is."""

    def _extra(self, prompt: ModelRequest) -> dict[str, Any]:
        """Give the fields of the caller's that go into the body as they are."""
        return dict(prompt.extra)

    def _left_out(self, prompt: ModelRequest) -> tuple[str, ...]:  # noqa: ARG002 - for a provider that leaves something out
        """Say what of the prompt is not sent, for ``Answer.warnings``."""
        return ()

    async def _events(self, stream: Any) -> AsyncGenerator[Any]:
        """Give the events of the SDK's stream, its models or plain JSON."""
        async for event in stream:
            yield event

    @abstractmethod
    def _read(self, event: Any) -> Sequence[Piece]:
        """Read one of `_events`, a piece for each choice; none where it says nothing to us."""

    @abstractmethod
    def _read_whole(self, body: Mapping[str, Any]) -> Sequence[Piece]:
        """Read an answer that is not streamed; none where the body is no answer."""

    async def _import_sdk(self) -> None:
        if self.sdk not in sys.modules:  # a second of import would hold up everything else in the event loop
            await anyio.to_thread.run_sync(make_ready, self.sdk)

    async def _client(self) -> Any:
        if self._closed:
            raise BackendError(f"{self.name} is closed. Open a new one.", backend=self.name)
        key = self._key.get_secret_value()
        if not key and not self.compatible:
            raise AuthenticationError(
                f"{self.name} needs a key. Set {self.key_variable}, or pass api_key=.", backend=self.name
            )
        if not (key.isascii() and key.isprintable()):
            raise AuthenticationError(
                f"The key for {self.name} holds a character that no key has, such as a line break or an accent. "
                f"Copy it again, into {'api_key=' if self.compatible else self.key_variable}.",
                backend=self.name,
            )
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [each for each in self._clients if each.is_closed()]:
                del self._clients[other]
            client = self._connect(key or "none", self._url)
            holding = _closed_with_its_loop(client)
            await anext(holding)
            self._clients[loop] = client, holding
        return self._clients[loop][0]

    async def _open(self, prompt: ModelRequest, options: GenerationOptions) -> Opened:
        await self._import_sdk()
        client = await self._client()
        many = is_long(prompt.messages, prompt.tools, options.stop)
        made = partial(self._parameters, prompt, options)
        wanted = await anyio.to_thread.run_sync(made) if many else made()
        calls = 0
        while True:
            parameters = self._memory.fit(wanted)  # the caller's extra takes precedence
            calls += 1
            try:
                with arriving() as arrival:
                    sent = await self._send(client, parameters, self._extra(prompt))
                    return Opened(sent, arrival, calls, prompt, options, self._left_out(prompt))
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
                failure = self._failure(error, started=False)
            in_words = not self.capabilities.json_schema or self.capabilities.schema_in_words
            self._memory.repeat_without(
                failure, parameters, Usage(calls=calls), wanted=wanted, schema_in_words=in_words
            )

    async def _chunks(self, opened: Opened) -> AsyncGenerator[Chunk, None]:
        answers = [
            IncomingAnswer(opened.options.stop, choice, tagged=self.compatible) for choice in range(opened.prompt.n)
        ]
        first = answers[0]
        usage = Usage(calls=opened.calls)
        extra: Mapping[str, Any] = {}
        failure: BackendError | None = None
        yield Chunk(
            headers=kept_headers(opened.arrival.headers, self._key.get_secret_value()),
            warnings=(*self._memory.warnings(self.name, opened.options), *opened.warnings),
        )
        async with aclosing(self._pieces(opened)) as pieces:
            while not all(answer.finish for answer in answers):
                try:
                    piece = await anext(pieces, None)
                except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
                    failure = self._failure(error, started=True)
                    break
                if piece is None:
                    break
                usage = _latest(usage, piece.usage) if piece.usage else usage
                extra = piece.added_to(extra)
                # A choice that was not asked for would be mixed into the others.
                answer = answers[piece.choice] if 0 <= piece.choice < len(answers) else None
                if answer is None or answer.finish is not None:
                    continue
                if chunk := answer.take(piece):
                    yield chunk
            for answer in answers:
                if chunk := answer.rest():
                    yield chunk
            # A server that takes no n answers once: the other answers are missing, not broken off.
            if failure is None and first.finish is None:
                failure = self._broken_off(opened.arrival)
            if failure is not None:
                charge(failure, usage)
                raise failure
            for choice, answer in enumerate(answers[1:], start=1):
                if answer.finish:
                    yield Chunk(finish_reason=answer.reason, choice=choice)
            # At once: what the connection does from here on, silence included, takes nothing from the answer.
            yield Chunk(finish_reason=first.reason, stop_text=first.stopped_by, extra=extra)
            if not all(answer.text.ended for answer in answers):
                usage = await _usage_after(pieces, usage)
        whole, warnings = self._counted(usage, opened.prompt, sum(answer.length for answer in answers))
        yield Chunk(usage=whole, warnings=warnings)

    async def _pieces(self, opened: Opened) -> AsyncGenerator[Piece, None]:
        begun = False
        async with aclosing(self._events(opened.stream)) as events:
            async for event in events:
                begun = True
                for piece in self._read(event):
                    yield piece
        lines = opened.arrival.lines
        if not begun and lines.other.strip() and not lines.last_data:
            for piece in self._unstreamed(opened.arrival):
                yield piece

    def _unstreamed(self, arrival: Arrival) -> Sequence[Piece]:
        """Read a body that is no stream of events: a whole answer, or a failure."""
        body = bytes(arrival.lines.other)
        read = read_json(body)
        pieces = self._read_whole(read) if isinstance(read, Mapping) and not is_error(read) else ()
        if not pieces:
            key = self._key.get_secret_value()
            raise not_a_stream(body, self.name, key, headers=kept_headers(arrival.headers, key))
        return pieces

    def _broken_off(self, arrival: Arrival) -> BackendError:
        """Give the error for a stream that ended without a finish reason."""
        last = read_json(arrival.lines.last_data)
        if isinstance(last, Mapping) and is_error(last):  # told in a form that the SDK does not know
            return self._failure(EventError(last), started=True)
        return StreamBrokenError(
            f"{self.name} ended its answer without a finish reason: it was cut off on the way. Ask again.",
            backend=self.name,
        )

    def _counted(self, usage: Usage, prompt: ModelRequest, length: int) -> tuple[Usage, tuple[str, ...]]:
        """Estimate the tokens that the server did not report."""
        estimated: dict[str, int] = {}
        if not usage.prompt_tokens:
            estimated["prompt_tokens"] = estimate_tokens(prompt)
        if length and not usage.completion_tokens:
            estimated["completion_tokens"] = typical_tokens(length)
        if not estimated:
            return usage, ()
        return usage.model_copy(update=estimated), (
            f"{self.name} did not report all of its tokens: those in the usage are partly estimated.",
        )

    def _failure(self, error: Exception, *, started: bool) -> BackendError:
        if self._closed:
            return BackendError(f"{self.name} was closed while it was answering.", backend=self.name)
        return translate(error, self.name, self._key.get_secret_value(), endpoint=self.endpoint, started=started)


async def _usage_after(pieces: AsyncIterator[Piece], usage: Usage) -> Usage:
    """Read what follows the finish reason, for a moment: the usage. A fault there cannot spoil a whole answer."""
    with anyio.move_on_after(_AFTER_FINISH_S):
        try:
            async for piece in pieces:
                usage = _latest(usage, piece.usage) if piece.usage else usage
        except Exception:  # noqa: BLE001, S110 - as above
            pass
    return usage


async def _close(stream: Any) -> None:
    """Close the SDK's stream. Tools that trace the SDK may return one of another type."""
    closing = stream.close()
    if inspect.isawaitable(closing):
        await closing


async def _closed_with_its_loop(client: Any) -> AsyncGenerator[None, None]:
    # Before an event loop ends, it closes its asynchronous generators: the one notice that it gives.
    try:
        yield
    finally:
        with anyio.move_on_after(_CLOSING_S, shield=True):
            await client.close()


def _latest(old: Usage, new: Usage) -> Usage:
    """Join two reports of one stream: APIs report running totals, some with every event."""
    return Usage(**{name: max(getattr(old, name), getattr(new, name)) for name in Usage.model_fields})
