"""What the backends that talk to an API over HTTP have in common: clients, keys, closing, errors."""

from __future__ import annotations

import asyncio
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, get_args
from weakref import WeakKeyDictionary

import anyio
from pydantic import SecretStr

from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.ending import AFTER_FINISH_S, broken_off
from stretto.backends.known_models import NO_ROWS, Rows, capabilities_of, estimate_tokens, typical_tokens
from stretto.backends.provider_table import key_variable_of, url_variable_of
from stretto.backends.providers.bare_thoughts import expected_of
from stretto.backends.providers.event_values import EventError
from stretto.backends.providers.failures import charge, failed_end, not_a_stream, translate
from stretto.backends.providers.learned import learned
from stretto.backends.providers.parameters import ParameterMemory
from stretto.backends.providers.pieces import AnswerPiece, IncomingAnswer
from stretto.backends.providers.transport.error_bodies import is_error, read_json
from stretto.backends.providers.transport.event_lines import Arrival, EventLines, JsonLines, arriving, json_events
from stretto.backends.providers.transport.headers import kept_headers
from stretto.backends.providers.transport.http_clients import host_of, http_client, make_ready, without_query
from stretto.backends.providers.transport.long_bodies import post
from stretto.backends.providers.transport.proxies import Proxy, proxy_to
from stretto.backends.tenants import own_usage
from stretto.foundation.bounds import is_long
from stretto.foundation.threads import in_own_thread
from stretto.values.answer import Usage
from stretto.values.errors import AuthenticationError, BackendError, missing
from stretto.values.request import GenerationOptions

Framing = Literal["events", "lines"]

_CLOSING_S = 5.0
_END = object()
_OF_PROXIES = (403, 407, 502, 503, 504)


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
    """One model behind an API over HTTP. Sends each call once: retries and limits are up to `resilient`.

    Provisional: it may change in any release.

    A subclass has a ``provider``, a ``default_url``, a ``path`` for its calls, `parameters`, which builds the body of a
    call, and `read`, which parses one event of the response stream. If a response can be a single body, it has
    `read_whole`, too. If a package of the provider implements the API, it names that as ``sdk`` and has `connect`,
    `send` and `events`. docs/extending.md has an example.

    ``base_url`` is the address of a compatible server. The key of the environment goes to the
    provider, or to the address that the environment names, never to a ``base_url`` given here:
    for that one, pass ``api_key``. ``own_rows`` are the caller's rows of the table of models.
    Raises `MissingDependencyError` if the provider's SDK is not installed.

    Attributes:
        provider: the part before the colon of a model's name.
        default_url: the address of the API.
        path: the path of a call, below the address.
        framing: the format of the stream: ``"events"``, server-sent ones, or ``"lines"``, each a JSON object.
        key_variable: the environment variable of the key; by default ``PROVIDER_API_KEY``.
        url_variable: the environment variable of another address; by default ``PROVIDER_BASE_URL``.
        retry_header: the response header with the seconds that the server asks to wait, if it is not ``Retry-After``.
        sdk: the module to import before the first call; none for plain HTTP.
        lacks: request options that the API has no parameter for; ``Answer.warnings`` names them.
        takes: which of ``"tools"``, ``"media"`` and ``"json_schema"`` its `parameters` send. Of the others, schemas
            are stated in words, and the rest is rejected; a class with its own ``capabilities`` says it there.
        model: the name of the model, without the provider.
        compatible: whether the address is another one than the provider's own.
    """

    provider: ClassVar[str]
    default_url: ClassVar[str]
    path: ClassVar[str] = ""
    framing: ClassVar[Framing] = "events"
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]
    retry_header: ClassVar[str] = ""
    sdk: ClassVar[str] = ""
    lacks: ClassVar[frozenset[str]] = frozenset()
    takes: ClassVar[frozenset[Literal["tools", "media", "json_schema"]]] = frozenset()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = vars(cls)
        if cls.framing not in get_args(Framing):
            raise TypeError(f'framing={cls.framing!r} cannot be used. Use "events" or "lines".')
        if "provider" in own:
            cls.key_variable = own.get("key_variable", key_variable_of(cls.provider))
            cls.url_variable = own.get("url_variable", url_variable_of(cls.provider))

    def __init__(
        self, model: str, *, base_url: str | None = None, api_key: str | None = None, own_rows: Rows = NO_ROWS
    ) -> None:
        self.model = model
        package = self.sdk.partition(".")[0]
        if package and find_spec(package) is None:
            raise missing(self.name, package, package)
        self.compatible = base_url is not None
        key = api_key or (None if self.compatible else os.environ.get(self.key_variable, "").strip())
        self._key = SecretStr(key or "")
        self._url = base_url or os.environ.get(self.url_variable) or self.default_url
        self._proxy: Proxy | None = None  # of the last connection
        known = capabilities_of(self.provider, model, own_rows)
        self._capabilities = replace(
            known,
            tools=known.tools and "tools" in self.takes,
            media=known.media and "media" in self.takes,
            json_schema=known.json_schema and "json_schema" in self.takes,
        )
        self._learned = learned(self.provider, self._url.rstrip("/"), model)
        self._memory = ParameterMemory(model, self.lacks, self._learned, own_rows)
        self._own_rows = own_rows
        # Connections belong to the event loop that opened them; the generator closes them with it.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]]
        self._clients = WeakKeyDictionary()
        self._loaded = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.endpoint}>"

    def forget_learned(self) -> None:
        """Forget what the server reported about itself and rejected, for all its users with this model."""
        self._learned.forget()

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
        """Provider and full address, which can contain a password: for comparing, not for showing."""
        return self.provider, self._url.rstrip("/")

    @property
    def at_provider(self) -> bool:
        """Whether calls go to the provider itself, so its list prices apply."""
        return host_of(self._url) == host_of(self.default_url)

    @property
    def parts_its_cache(self) -> bool:
        """Whether the server separates its cache by our tenants; if so, its usage reveals nothing of others."""
        return False

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model from its name."""
        return self._capabilities

    @asynccontextmanager
    async def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AsyncGenerator[AsyncGenerator[Chunk, None]]:
        """Send one call; the first chunk has the headers, the last two the finish reason and the usage."""
        opened = await self._open(prompt, options)
        chunks = self._chunks(opened)
        try:
            yield chunks
        finally:
            with anyio.move_on_after(_CLOSING_S, shield=True):
                await chunks.aclose()
                await _close(opened.stream)

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Estimate the tokens of the prompt; an exact count would need a call."""
        return estimate_tokens(prompt)

    async def aclose(self) -> None:
        """Close the connections; running answers end with a `BackendError`.

        Connections of other event loops are closed by those loops as soon as they run.
        """
        self._closed = True
        _, holding = self._clients.pop(asyncio.get_running_loop(), (None, None))
        if holding is not None:
            await holding.aclose()
        self._clients.clear()  # a generator without references is closed by its own event loop

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of each request: the key, as a bearer token."""
        return {"authorization": f"Bearer {key}"}

    def connect(self, key: str, url: str, query: Mapping[str, str], proxy: str | None) -> Any:
        """Create a client without retries, with query parameters for each request, and an optional proxy."""
        return http_client(proxy, base_url=url, params=query, headers=self.headers(key))

    @abstractmethod
    def parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, Any]:
        """Return everything that the call should send, by the API's names."""

    async def send(self, client: Any, parameters: dict[str, Any], extra: dict[str, Any]) -> Any:
        """Start a call and return the stream that `events` reads; ``extra`` goes into the body unchanged.

        Whatever it raises becomes a `BackendError`, by its status and its body.
        """
        return await post(client, self.path, {**parameters, **extra})

    def extra_fields(self, prompt: ModelRequest) -> dict[str, Any]:
        """Return the caller's fields that go into the body unchanged."""
        return dict(prompt.extra)

    def left_out(self, prompt: ModelRequest) -> tuple[str, ...]:  # noqa: ARG002 - for a provider that leaves something out
        """Return warnings for what is not sent of the prompt, for ``Answer.warnings``."""
        return ()

    def events(self, stream: Any) -> AsyncGenerator[Any]:
        """Return the events of a stream as JSON, by its `framing`. With an SDK, return the items of its stream."""
        return _as_given(stream) if self.sdk else json_events(stream.aiter_bytes())

    @abstractmethod
    def read(self, event: Any) -> Sequence[AnswerPiece]:
        """Parse one of `events` into a piece for each answer; none if it says nothing about them."""

    def read_whole(self, body: Mapping[str, Any]) -> Sequence[AnswerPiece]:  # noqa: ARG002 - for an API that has such
        """Parse an answer that is not streamed; none if the body is not an answer."""
        return ()

    async def load_ahead(self) -> None:
        """Import the SDK in a thread: the second that it takes would block the event loop."""
        if not self._loaded:
            await in_own_thread(partial(make_ready, self.sdk), "stretto imports")
            self._loaded = True

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
            self._proxy = proxy_to(self._url)
            through = None if self._proxy is None else self._proxy.url
            client = self.connect(key or "none", *without_query(self._url), through)
            holding = _closed_with_its_loop(client)
            await anext(holding)
            self._clients[loop] = client, holding
        return self._clients[loop][0]

    async def _open(self, prompt: ModelRequest, options: GenerationOptions) -> Opened:
        await self.load_ahead()
        client = await self._client()
        many = is_long(prompt.messages, prompt.tools, options.stop)
        calls = 0
        while True:
            taken = self._memory.as_taken(prompt)
            made = partial(self.parameters, taken, options)
            wanted = await anyio.to_thread.run_sync(made) if many else made()
            parameters = self._memory.fit(wanted)  # the caller's extra takes precedence
            calls += 1
            try:
                with arriving(JsonLines() if self.framing == "lines" else EventLines()) as arrival:
                    sent = await self.send(client, parameters, self.extra_fields(prompt))
                    return Opened(sent, arrival, calls, prompt, options, self.left_out(prompt))
            except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
                failure = self._failure(error, started=False)
            in_words = not self.capabilities.json_schema or self.capabilities.schema_in_words
            self._memory.repeat_without(
                failure,
                parameters,
                Usage(calls=calls),
                schema=taken.response_schema,
                in_words=in_words or taken.in_words is not None,
            )

    async def _chunks(self, opened: Opened) -> AsyncGenerator[Chunk, None]:
        stop, tagged = opened.options.stop, self.compatible or not self.at_provider
        bare = self._bare_thoughts(opened.prompt) if tagged else False
        answers = [
            IncomingAnswer(stop, choice, prompt=opened.prompt if tagged else None, bare=bare)
            for choice in range(opened.prompt.n)
        ]
        first = answers[0]
        usage = Usage(calls=opened.calls)
        extra: Mapping[str, Any] = {}
        failure: BackendError | None = None
        wrote_on = False
        yield Chunk(
            headers=kept_headers(opened.arrival.headers, self._key.get_secret_value()),
            warnings=(*self._memory.warnings(self.name, opened.options), *opened.warnings),
        )
        async with aclosing(self.events(opened.stream)) as events:
            pieces: Sequence[AnswerPiece] | None = ()
            begun = False
            while not all(answer.end for answer in answers):
                try:
                    pieces = await self._next_pieces(events, None if begun else opened.arrival)
                except Exception as error:  # noqa: BLE001 - whatever the SDK raises becomes one of ours
                    failure, pieces = self._failure(error, started=True), None
                if pieces is None:
                    break
                begun = True
                for at, piece in enumerate(pieces, start=1):
                    usage = _latest(usage, piece.usage) if piece.usage else usage
                    extra = piece.added_to(extra)
                    if chunk := _taken(answers, piece):
                        yield chunk
                    if all(answer.end for answer in answers):
                        pieces = pieces[at:]
                        break
            for chunk in filter(None, [answer.rest() for answer in answers]):
                yield chunk
            self._note_bare_thoughts(first)
            # A server without support for n answers once: the other answers are missing, not broken off.
            if failure is None and first.finish is None:
                failure = self._broken_off(first, opened.arrival)
            if failure is not None:
                charge(failure, (await self._after_finish(events, pieces, usage))[0] if first.end else usage)
                raise failure
            for choice, answer in enumerate(answers[1:], start=1):
                if answer.finish:
                    yield Chunk(finish_reason=answer.finish, choice=choice, warnings=answer.remarks(self.name))
            # Immediately: whatever the connection does from here on, even silence, leaves the answer unaffected.
            yield Chunk(
                finish_reason=first.finish,
                stop_text=first.stopped_by,
                extra=extra,
                warnings=first.remarks(self.name),
            )
            if not all(answer.text.ended for answer in answers):
                usage, wrote_on = await self._after_finish(events, pieces, usage)
        whole, estimated = self._counted(usage, opened.prompt, sum(answer.length for answer in answers))
        late = (f"{self.name} kept writing after the end of its answer: that text was left out.",) if wrote_on else ()
        yield Chunk(usage=whole, warnings=(*estimated, *late))

    async def _next_pieces(
        self, events: AsyncIterator[Any], arrival: Arrival | None = None
    ) -> Sequence[AnswerPiece] | None:
        """Read the next event; ``None`` at the end of the stream.

        ``arrival``: given while nothing of the call has arrived, as its body might not be an event stream.
        """
        event = await anext(events, _END)
        if event is not _END:
            if not self.sdk and is_error(event):
                raise EventError(event)
            pieces = self.read(event)
        elif arrival is not None and arrival.lines.other.strip() and not arrival.lines.last_data:
            pieces = self._unstreamed(arrival)
        else:
            return None
        if self.parts_its_cache:
            return pieces
        return [replace(each, usage=own_usage(each.usage)) if each.usage else each for each in pieces]

    async def _after_finish(
        self, events: AsyncIterator[Any], pieces: Sequence[AnswerPiece] | None, usage: Usage
    ) -> tuple[Usage, bool]:
        """Read what follows the finish reason, for a moment: the usage, and whether the answer continues.

        ``pieces``: those after it in the same event. A failure there cannot spoil a complete answer.
        """
        wrote_on = False
        with anyio.move_on_after(AFTER_FINISH_S):
            try:
                while pieces is not None:
                    for piece in pieces:
                        usage = _latest(usage, piece.usage) if piece.usage else usage
                        wrote_on = wrote_on or (piece.choice == 0 and bool(piece.text.strip() or piece.tool_calls))
                    pieces = await self._next_pieces(events)
            except Exception:  # noqa: BLE001, S110 - as above
                pass
        return usage, wrote_on

    def _unstreamed(self, arrival: Arrival) -> Sequence[AnswerPiece]:
        """Parse a body that is not an event stream: a complete answer, or a failure."""
        body = bytes(arrival.lines.other)
        read = read_json(body)
        pieces = self.read_whole(read) if isinstance(read, Mapping) and not is_error(read) else ()
        if not pieces:
            key = self._key.get_secret_value()
            headers = kept_headers(arrival.headers, key, retry_header=self.retry_header)
            raise not_a_stream(body, self.name, key, headers=headers)
        return pieces

    def _bare_thoughts(self, prompt: ModelRequest) -> bool | None:
        """Return the argument ``bare`` of `IncomingAnswer`."""
        known, facts = self._learned.bare_thoughts, self._learned.facts
        if known is not None:  # arguments of the template can turn thoughts off
            return None if known and "chat_template_kwargs" in prompt.extra else known
        learned = None if facts is None else facts.bare_thoughts
        return expected_of(self.model, self.endpoint) if learned is None else learned and None

    def _note_bare_thoughts(self, answer: IncomingAnswer) -> None:
        if answer.bare is not None:
            self._learned.bare_thoughts = answer.bare

    def _broken_off(self, answer: IncomingAnswer, arrival: Arrival) -> BackendError:
        """Return the error for a stream without a finish reason, or with one that reports a failure."""
        if answer.end == "failed":
            return failed_end(self.name, answer.word)
        last = read_json(arrival.lines.last_data)
        if is_error(last):  # reported in a format that the SDK does not know
            return self._failure(EventError(last), started=True)
        return broken_off(self.name)

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
        proxy = "" if self._proxy is None else self._proxy.name
        key = self._key.get_secret_value()
        where = {"endpoint": self.endpoint, "proxy": proxy, "retry_header": self.retry_header}
        failure = translate(error, self.name, key, started=started, **where)
        if proxy and failure.status in _OF_PROXIES and self._url.startswith("http:"):
            failure.remark(f"It was sent through the proxy {proxy}, which may have answered itself.")
        return failure


def _taken(answers: Sequence[IncomingAnswer], piece: AnswerPiece) -> Chunk | None:
    """Add a piece to its answer. Skips a choice that was not requested, which would be mixed into the others."""
    answer = answers[piece.choice] if 0 <= piece.choice < len(answers) else None
    return None if answer is None or answer.end is not None else answer.take(piece)


async def _as_given(stream: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    async for event in stream:
        yield event


async def _close(stream: Any) -> None:
    """Close a client or a stream, of httpx or of an SDK. Tools that trace an SDK can return one of another type."""
    closing = stream.aclose() if hasattr(stream, "aclose") else stream.close()
    if inspect.isawaitable(closing):
        await closing


async def _closed_with_its_loop(client: Any) -> AsyncGenerator[None, None]:
    # Before an event loop ends, it closes its async generators, which is the only notice that it gives.
    try:
        yield
    finally:
        with anyio.move_on_after(_CLOSING_S, shield=True):
            await _close(client)


def _latest(old: Usage, new: Usage) -> Usage:
    """Merge two usage reports of one stream: APIs report running totals, some with every event."""
    return Usage(**{name: max(getattr(old, name), getattr(new, name)) for name in Usage.model_fields})
