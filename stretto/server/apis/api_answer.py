"""From a request's body to its response, whole or streamed: what all APIs have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import anyio
from starlette.types import Receive, Scope, Send

from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.foundation.bounds import is_long
from stretto.server.apis.answer_events import Ask, answer_events
from stretto.server.apis.bodies import ClientDisconnectedError, read_object
from stretto.server.apis.extension import named_event, route_header
from stretto.server.exchange import Exchange, encoded, log, stay
from stretto.server.limits.admission_control import AdmissionControl
from stretto.server.limits.metering import body_tokens, prompt_tokens
from stretto.server.problems import Problem, of_error, shutting_down
from stretto.server.service import Service
from stretto.values.answer import Answer
from stretto.values.errors import StrettoError
from stretto.values.events import AnswerFinished, BranchStarted, Event, RouteChosen

_LAST_S = 5.0
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ResponseWriter(Protocol):
    """A writer for one response in the format of an API."""

    def whole(self, answers: Sequence[Answer]) -> Any:
        """Return the response as JSON."""
        ...

    def frames(self, index: int, event: Event) -> bytes:
        """Return what an event of the answer with this index adds to the stream; may be empty."""
        ...

    def closing(self) -> bytes:
        """Return what ends a stream once all answers are complete."""
        ...

    def broken(self, problem: Problem) -> bytes:
        """Return what ends a stream after an error."""
        ...


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A parsed body; it has more than one question if the API takes multiple prompts."""

    asks: Sequence[Ask]
    stream: bool
    writer: ResponseWriter


Read = Callable[[dict[str, Any], Service, Exchange], ParsedBody]
"""Parses an API's body. Raises `Problem`."""

Elsewhere = Callable[[dict[str, Any], Service, Exchange, Problem], Awaitable[None]]
Handler = Callable[[Service, Exchange], Awaitable[None]]


class Endpoint:
    """An ASGI application for one path: checks the key, handles the request, reports errors.

    ``anthropic``: use the format of Anthropic's API instead of OpenAI's. ``guarded``: require a key if there are any.
    """

    def __init__(
        self, service: Service, path: str, handle: Handler, *, anthropic: bool = False, guarded: bool = True
    ) -> None:
        self._service = service
        self._path = path
        self._handle = handle
        self._anthropic = anthropic
        self._guarded = guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._service.options, self._service.models.without_paths)
        try:
            try:
                if self._guarded:
                    self._let_in(exchange)
                keyring = self._service.keyring
                # Without keys, callers cannot be distinguished.
                tenant = exchange.holder.name if keyring.holders else UNKNOWN
                with asked_for(tenant, among_others=keyring.has_several):
                    await self._handle(self._service, exchange)
            except ClientDisconnectedError:
                return
            except asyncio.CancelledError:
                if not self._service.admission.draining:
                    raise
                stay()
                await self._send_error(exchange, shutting_down())
            except Exception as error:  # noqa: BLE001 - the client gets a response, the server runs on
                await self._send_error(exchange, error)
        except ClientDisconnectedError:
            return
        finally:
            self._service.metrics.responded(self._path, exchange.status or 499)  # nginx's status for a client that left

    def _let_in(self, exchange: Exchange) -> None:
        holder = self._service.keyring.find(exchange.headers)
        if holder is None:
            given = "authorization" in exchange.headers or "x-api-key" in exchange.headers
            reason = "The key is not one of this server's." if given else "This server needs a key."
            raise Problem(
                401,
                f"{reason} Send the header Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        exchange.holder = holder

    async def _send_error(self, exchange: Exchange, error: Exception) -> None:
        problem = of_error(error)
        if not isinstance(error, (Problem, StrettoError)):
            log.exception("%s at %s failed", exchange.id, self._path)
        elif problem.status >= 500 and problem.status != 503:  # which is meant for the load balancer
            log.warning("%s at %s: %s", exchange.id, self._path, problem.message)
        if not exchange.started:
            body = problem.as_anthropic(exchange.id) if self._anthropic else problem.as_openai()
            await exchange.send_json(body, problem.status, problem.headers)


async def read_by(read: Read, body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:
    """Parse a body; a long one in a thread, so that other requests do not wait. Raises `Problem`."""
    if is_long(*body.values()):
        return await anyio.to_thread.run_sync(read, body, service, exchange)
    return read(body, service, exchange)


def generating(read: Read, elsewhere: Elsewhere | None = None) -> Handler:
    """Return the handler for the requests of an API that generates.

    ``elsewhere`` is tried with a body that cannot be read, and raises the problem if it cannot help.
    """

    async def handle(service: Service, exchange: Exchange) -> None:
        service.admission.check_open()
        body = await read_object(exchange.receive, exchange.headers, service.options)
        try:
            reading = await read_by(read, body, service, exchange)
        except Problem as problem:
            if elsewhere is None:
                raise
            async with (
                _paid(exchange),
                exchange.attended(),
                service.admission.admitted(exchange.holder, exchange.end, prompt_tokens=body_tokens(body)),
            ):
                await elsewhere(body, service, exchange, problem)
            return
        exchange.streams = reading.stream
        name = reading.asks[0].served.name
        tokens = sum(prompt_tokens(ask.prompt) for ask in reading.asks)
        answered = False
        try:
            async with (
                _paid(exchange),
                exchange.attended(),
                service.admission.admitted(exchange.holder, exchange.end, prompt_tokens=tokens) as waited_s,
            ):
                # Errors in here are reported in here: once the status is sent, a response ends with an event.
                answers = await _respond(exchange, reading, service.admission)
                answered = True
                for answer in answers:
                    service.metrics.answered(name, answer, waited_s=waited_s)
        except Problem as problem:
            answered = True
            if not exchange.started:
                raise
            await _break_off(exchange, reading.writer, problem)
        finally:
            if not answered:
                service.metrics.left(name)

    return handle


@asynccontextmanager
async def _paid(exchange: Exchange) -> AsyncGenerator[None]:
    """Charge the key for what the request cost, however it ends."""
    try:
        yield
    finally:
        if exchange.holder.tokens is not None and (tokens := exchange.meter.tokens):
            await exchange.holder.tokens.take(tokens)


def refused(status: int, message: str, code: str) -> Handler:
    """Return a handler that refuses a path of an API that this server does not implement."""

    async def handle(service: Service, exchange: Exchange) -> None:  # noqa: ARG001 - as a handler is called
        raise Problem(status, message, code=code)

    return handle


async def _respond(exchange: Exchange, reading: ParsedBody, admission: AdmissionControl) -> Sequence[Answer]:
    try:
        if reading.stream:
            return await _stream(exchange, reading, admission)
        return await _whole(exchange, reading, admission)
    except (Problem, ClientDisconnectedError):
        raise
    except Exception as error:
        if not isinstance(error, StrettoError):
            log.exception("%s failed", exchange.id)
        raise of_error(error) from error


async def _whole(exchange: Exchange, reading: ParsedBody, admission: AdmissionControl) -> Sequence[Answer]:
    answers: dict[int, Answer] = {}
    async with answer_events(reading.asks, exchange.holder, admission) as events:
        async for index, event in events:
            exchange.meter.note(index, event, reading.asks[index].prompt)
            if isinstance(event, AnswerFinished):
                answers[index] = event.answer
    found = [answers[index] for index in range(len(reading.asks))]
    await exchange.send_json(reading.writer.whole(found), headers=route_header(found[0].route))
    return found


async def _stream(exchange: Exchange, reading: ParsedBody, admission: AdmissionControl) -> Sequence[Answer]:
    """Stream the answers. The status waits for the first text, so an earlier failure gets its own status."""
    writer = reading.writer
    answers: dict[int, Answer] = {}
    async with answer_events(reading.asks, exchange.holder, admission) as events:
        async for first in events:
            frames = b""
            for index, event in (first, *events.ready()):  # events that have already arrived go out together
                exchange.meter.note(index, event, reading.asks[index].prompt)
                frames += writer.frames(index, event)
                if isinstance(event, RouteChosen) and not exchange.stream_headers:
                    exchange.stream_headers = route_header(event.route)
                elif isinstance(event, AnswerFinished):
                    answers[index] = event.answer
            if frames:
                await exchange.write(frames)
    await exchange.write(writer.closing())
    await exchange.finish()
    return list(answers.values())


async def _break_off(exchange: Exchange, writer: ResponseWriter, problem: Problem) -> None:
    log.warning("%s broke off: %s", exchange.id, problem.message)
    with anyio.move_on_after(_LAST_S):  # for a client that does not read it
        await exchange.write(writer.broken(problem))
        await exchange.finish()


class EventWriter:
    """A writer that delays the start of a stream until there is more, so a request can still fail with a status.

    With ``events``, nothing is delayed, and each event also follows under its own name. ``event_fields`` are added
    to its data, for clients that ignore event names.
    """

    def __init__(self, *, events: bool, event_fields: Mapping[str, Any] = _NOTHING) -> None:
        self._events, self._event_fields = events, event_fields
        self._buffer: bytes | None = None if events else b""

    def written(self, event: Event) -> bytes:
        """Return what an event adds to the stream; may be empty."""
        raise NotImplementedError

    def frames(self, index: int, event: Event) -> bytes:  # noqa: ARG002 - there is one answer
        """Return what to send now: this event and those delayed before it."""
        frames = self.written(event)
        if self._events and (named := named_event(event)):
            name, data = named
            frames += sse({**self._event_fields, **data}, name)
        if self._buffer is None:
            return frames
        self._buffer += frames
        if not frames or isinstance(event, RouteChosen | BranchStarted):
            return b""
        due, self._buffer = self._buffer, None
        return due


def sse(data: Mapping[str, Any], event: str | None = None) -> bytes:
    """Return one server-sent event."""
    named = b"" if event is None else f"event: {event}\n".encode()
    return b"".join((named, b"data: ", encoded(data), b"\n\n"))
