"""A real HTTP server on loopback that answers like OpenAI and Anthropic, as scripted, faults included.

In a test: ``async with ScriptedServer("Hello.") as server`` and point a client at
``server.openai_url`` or ``server.url``. In a separate process, for benchmarks:
``python -m stretto.testing --time-to-first-token 0.3 --tokens-per-second 60``.

It speaks HTTP/1.1 over plain asyncio streams, because a web framework would hide what a test
needs to be real: resets, silence, half an event.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import anyio

from stretto.testing.dialects import AnthropicDialect, Dialect, OpenAIDialect
from stretto.testing.protocols import Fault, HttpReply, RawResponse, Turn, turn_of
from stretto.testing.wire import ClientLeft, Connection, ReceivedRequest

__all__ = ["Fault", "HttpReply", "Page", "RawResponse", "ReceivedRequest", "ReplyRule", "ScriptedServer"]

_LAST_WAIT_S = 0.005
_DIALECTS: Mapping[str, Dialect] = {"/v1/chat/completions": OpenAIDialect(), "/v1/messages": AnthropicDialect()}


@dataclass(frozen=True, slots=True)
class ReplyRule:
    """A reply for some prompts.

    Attributes:
        pattern: a regular expression to search for in the prompt.
        reply: the reply to a prompt that matches.
    """

    pattern: str
    reply: HttpReply | RawResponse | str


Refusing = Callable[[ReceivedRequest], tuple[int, dict[str, Any]] | None]
Answering = (
    str | HttpReply | RawResponse | Sequence[ReplyRule] | Callable[[ReceivedRequest], "HttpReply | RawResponse | str"]
)


@dataclass(frozen=True, slots=True)
class Page:
    """The response of a path that does not generate.

    Attributes:
        body: JSON, or a text to send unchanged.
        status: the HTTP status.
    """

    body: Any
    status: int = 200


class ScriptedServer:
    """A server that answers ``/v1/chat/completions``, ``/v1/messages``, ``/v1/models`` and ``/health`` as scripted.

    Args:
        replies: one text, an `HttpReply`, a `RawResponse`, rules tried in order (the last resort is ``OK.``), or a
            callable that takes the `ReceivedRequest`.
        time_to_first_token_s: seconds between a request and its first token.
        tokens_per_second: the rate of each stream; ``None``: all at once. Due times are absolute, so they do not drift.
        token_characters: length of a token; ``None``: a word with the white space before it.
        slots: answers that are written at a time; further requests wait for their turn, as on a server of fixed
            capacity.
        key: the only key that is accepted; ``None``: every key.
        rejects: parameters to reject with 400, in the words of the real APIs; or a callable that takes the
            `ReceivedRequest` and returns the status and body of a rejection, if any.
        headers: added to every response, for instance rate limits; can be a callable.
        models: names listed by ``/v1/models``.
        pages: responses of other paths, or of ``/v1/models`` and ``/health``: JSON, a text, or `Page` with a status.
        port: 0 for a free one.

    Attributes:
        port: the port it listens on.
        requests: every request for a generation, in order, keys removed.
        inquiries: every other request, likewise.
        open_connections: connections that clients have open now.
        active_streams: answers being sent now.
        slots: answers that are written at a time; can be changed while it runs.
    """

    def __init__(
        self,
        replies: Answering = "OK.",
        *,
        time_to_first_token_s: float = 0.0,
        tokens_per_second: float | None = None,
        token_characters: int | None = None,
        slots: int | None = None,
        key: str | None = None,
        rejects: Iterable[str] | Refusing = (),
        headers: Mapping[str, str] | Callable[[ReceivedRequest], Mapping[str, str]] | None = None,
        models: Sequence[str] = ("scripted",),
        pages: Mapping[str, Any] | None = None,
        port: int = 0,
    ) -> None:
        self.requests: list[ReceivedRequest] = []
        self.inquiries: list[ReceivedRequest] = []
        self.open_connections = 0
        self.active_streams = 0
        self.port = port
        self._replies = replies
        self._first_s = time_to_first_token_s
        self._rate = tokens_per_second
        self._characters = token_characters
        self._most = slots or math.inf
        self._limiter: anyio.CapacityLimiter | None = None  # created in the event loop
        self._key = key
        self._rejects = rejects if callable(rejects) else tuple(rejects)
        self._headers = headers or {}
        self._models = tuple(models)
        self._pages = dict(pages or {})
        self._faults: deque[Fault | None] = deque()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Condition()

    @property
    def url(self) -> str:
        """The root URL of the server, which is the base URL for Anthropic clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI clients."""
        return f"{self.url}/v1"

    @property
    def slots(self) -> float:
        """Answers that are written at a time."""
        return self._most

    @slots.setter
    def slots(self, most: int) -> None:
        self._most = most
        if self._limiter is not None:
            self._limiter.total_tokens = most

    def script(self, *faults: Fault | None) -> None:
        """Give each of the next requests one of these faults, in order; ``None`` lets one pass."""
        self._faults.extend(faults)

    async def wait_until(self, condition: Callable[[ScriptedServer], bool]) -> None:
        """Return as soon as the condition is true; it is checked whenever something happens on the server."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def __aenter__(self) -> Self:
        self._limiter = anyio.CapacityLimiter(self._most)
        self._server = await asyncio.start_server(self._converse, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs this callback in a task
        self._tasks.add(task)
        self.open_connections += 1
        connection = Connection(reader, writer)
        try:
            while (request := await connection.read_request()) is not None:
                received, key = request
                (self.requests if received.path in _DIALECTS else self.inquiries).append(received)
                await self._notify()
                try:
                    await self._answer(connection, received, key)
                finally:
                    received.ended_s = asyncio.get_running_loop().time()
                    await connection.stop_watching()
                    await self._notify()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ClientLeft):
            pass  # the client has disconnected, or the server is closing: either way this connection is over
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):  # as above
                await writer.wait_closed()
            self.open_connections -= 1
            self._tasks.discard(task)
            await self._notify()

    async def _answer(self, connection: Connection, received: ReceivedRequest, key: str) -> None:
        always = self._headers(received) if callable(self._headers) else self._headers
        number = f"req-{len(self.requests)}"
        connection.headers = {"x-request-id": number, "request-id": number, **always}
        dialect = _DIALECTS.get(received.path)
        try:
            if dialect is None:
                await self._inform(connection, received)
            elif (refusal := self._refusal(received, key, dialect)) is not None:
                received.outcome = "status"
                await connection.send_json(*refusal)
            else:
                await self._generate(connection, received, dialect)
        except (ClientLeft, ConnectionError):
            received.outcome = "left" if received.outcome == "open" else received.outcome
            raise
        if received.outcome == "open":
            received.outcome = "finished"

    async def _inform(self, connection: Connection, received: ReceivedRequest) -> None:
        if received.path in self._pages:
            page = self._pages[received.path]
            sent = page if isinstance(page, Page) else Page(page)
            await connection.send_page(sent.status, sent.body)
        elif received.path == "/health":
            await connection.send_json(200, {"status": "ok"})
        elif received.path == "/v1/models":
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "scripted"} for name in self._models]
            await connection.send_json(200, {"object": "list", "data": models})
        else:
            received.outcome = "status"
            await connection.send_json(404, OpenAIDialect().error(404, f"There is no {received.path} here."))

    def _refusal(self, received: ReceivedRequest, key: str, dialect: Dialect) -> tuple[int, dict[str, Any]] | None:
        if self._key is not None and key != self._key:
            # The key is repeated in full, as careless servers do: clients must not pass it on.
            return 401, dialect.error(401, f"Incorrect API key provided: {key}.")
        if callable(self._rejects):
            return self._rejects(received)
        for parameter in self._rejects:
            if parameter in received.body:
                return 400, dialect.error(400, dialect.rejection(parameter), parameter)
        return None

    async def _generate(self, connection: Connection, received: ReceivedRequest, dialect: Dialect) -> None:
        reply = self._reply(received)
        if isinstance(reply, RawResponse):
            await self._send_raw(connection, received, reply)
            return
        fault = (self._faults.popleft() if self._faults else None) or reply.fault
        if fault is not None and fault.early:
            await self._fail(connection, received, dialect, fault)
            return
        turn = turn_of(reply, received.body, len(self.requests), characters=self._characters)
        async with self._turn(received):
            self.active_streams += 1
            try:
                if received.body.get("stream"):
                    await self._stream(connection, received, dialect, turn, fault)
                else:
                    await self._pace(connection, received, turn, len(turn.tokens))
                    await connection.send_json(200, dialect.whole(turn))
            finally:
                self.active_streams -= 1

    @asynccontextmanager
    async def _turn(self, received: ReceivedRequest) -> AsyncIterator[None]:
        """Wait until one more answer can be written."""
        assert self._limiter is not None  # noqa: S101 - it serves; for the type checker
        borrower = object()
        try:
            self._limiter.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            await self._limiter.acquire_on_behalf_of(borrower)
            received.started_s = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(borrower)

    async def _stream(
        self, connection: Connection, received: ReceivedRequest, dialect: Dialect, turn: Turn, fault: Fault | None
    ) -> None:
        await connection.start_events()
        await connection.send_events(b"".join(map(dialect.opening, turn.all)))
        longest = max(len(each.tokens) for each in turn.all)
        for index in range(longest)[: fault.after if fault else None]:
            await self._pace(connection, received, turn, index)
            spoken = [dialect.token(each, each.tokens[index]) for each in turn.all if index < len(each.tokens)]
            await connection.send_events(b"".join(spoken))
        if fault is not None:
            await self._fail(connection, received, dialect, fault)
        else:
            calls = b"".join(map(dialect.calling, turn.all))
            await connection.send_events(calls + dialect.closing(turn))
        await connection.end_events()

    async def _send_raw(self, connection: Connection, received: ReceivedRequest, reply: RawResponse) -> None:
        self.active_streams += 1
        try:
            await connection.start(reply.status, reply.headers)
            for piece in reply.pieces:
                await connection.send_events(piece)
            while reply.endless:
                await connection.send_events(reply.pieces[-1])
                await asyncio.sleep(0)  # writing to a buffer with room does not yield to the loop
            received.outcome = "finished" if reply.then == "end" else reply.then
            await self._notify()
            if reply.then == "reset":
                connection.reset()
                raise ClientLeft
            if reply.then == "stall":
                await connection.pause(None)
            await connection.end_events()
        finally:
            self.active_streams -= 1

    async def _fail(self, connection: Connection, received: ReceivedRequest, dialect: Dialect, fault: Fault) -> None:
        received.outcome = fault.kind
        await self._notify()
        match fault.kind:
            case "status":
                message = fault.message or f"Scripted failure with status {fault.status}."
                await connection.send_json(fault.status, dialect.error(fault.status, message), fault.headers)
            case "stall":
                await connection.pause(None)
            case "reset":
                connection.reset()
                raise ClientLeft
            case "broken":
                await connection.send_events(b'event: content_block_delta\ndata: {"choices": [{"del\n\n')
            case "error":
                await connection.send_events(dialect.error_event(fault.status, fault.message or "Scripted failure."))
            case "cut":
                pass  # the stream ends here normally, except for its missing finish reason

    async def _pace(self, connection: Connection, received: ReceivedRequest, turn: Turn, index: int) -> None:
        """Wait until the token with this index is due."""
        first_s = self._first_s if turn.reply.time_to_first_token_s is None else turn.reply.time_to_first_token_s
        loop = asyncio.get_running_loop()
        began = received.arrived_s if received.started_s is None else received.started_s
        due = began + first_s + (index / self._rate if self._rate else 0.0)
        # A kernel can be late by a thousandth of a wait, so the end of a long wait is waited for separately.
        await connection.pause(due - loop.time() - _LAST_WAIT_S)
        await connection.pause(due - loop.time())
        received.tokens_s.append(loop.time())
        if received.first_token_s is None:
            received.first_token_s = received.tokens_s[0]

    def _reply(self, received: ReceivedRequest) -> HttpReply | RawResponse:
        if callable(self._replies):
            try:
                found = self._replies(received)
            except Exception as error:  # noqa: BLE001 - the bug is in the script, and the client should see it
                fault = Fault("status", message=f"The script failed: {error!r}")
                return HttpReply("", fault=fault)
        elif isinstance(self._replies, (str, HttpReply, RawResponse)):
            found = self._replies
        else:
            prompt = received.prompt
            found = next((rule.reply for rule in self._replies if re.search(rule.pattern, prompt)), "OK.")
        return HttpReply(found) if isinstance(found, str) else found
