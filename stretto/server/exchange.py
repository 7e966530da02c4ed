"""One HTTP request and its response: who asks, what was sent, and how it ends when the client leaves."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pydantic_core
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from stretto.server.limits.keys import Holder
from stretto.server.limits.metering import Meter
from stretto.server.problems import Problem
from stretto.server.server_options import ServerOptions

_GIVEN_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
# Many clients also split a stream into lines at these, which JSON leaves unescaped.
_LINE_ENDS = {b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029", b"\xc2\x85": rb"\u0085"}

log = logging.getLogger("stretto.server")


def encoded(value: Any) -> bytes:
    """Return a value as one line of JSON in UTF-8."""
    body = pydantic_core.to_json(value)
    if not body.isascii():
        for end, escape in _LINE_ENDS.items():
            body = body.replace(end, escape)
    return body


def request_id(headers: Mapping[str, str]) -> str:
    """Return a request's id: the client's, or a new one."""
    given = headers.get("x-request-id", "")
    return given if _GIVEN_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"


def named(request: str) -> dict[str, str]:
    """Return the headers with the request id: OpenAI's clients read the first name, Anthropic's the second."""
    return {"x-request-id": request, "request-id": request}


def stay() -> None:
    """Let a task that the stopping server has cancelled still report the reason to its client."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


class Exchange:
    """A request and its response.

    Attributes:
        id: the request id: the client's, or a new one.
        holder: the holder of the key.
        started: whether the status has been sent.
        status: the status that was sent; 0 before.
        streams: whether the response is an event stream, in which long silences are filled with comments.
        stream_headers: headers of that stream.
        meter: what the request has cost so far.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        options: ServerOptions,
        public: Callable[[bytes], bytes] = lambda sent: sent,
    ) -> None:
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.id = request_id(self.headers)
        self.receive = receive
        self.holder = Holder("nobody")
        self.status = 0
        self.streams = False
        self.stream_headers: dict[str, str] = {}
        self.meter = Meter()
        self._send = send
        self._public = public
        self._sending_since: float | None = None
        self._quiet_since = time.monotonic()
        self._options = options
        self._ended_by: Problem | None = None
        self._answering = anyio.CancelScope()

    @property
    def started(self) -> bool:
        """Whether the status has been sent and so cannot change any more."""
        return self.status > 0

    def end(self, problem: Problem) -> None:
        """Stop what is being written, and report why."""
        self._ended_by = problem
        self._answering.cancel()

    @asynccontextmanager
    async def attended(self) -> AsyncGenerator[None]:
        """Cancel the block when the client leaves; raise `Problem` if `end` has stopped it.

        Enter it once the body has been read.
        """
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch, watching.cancel_scope)
                watching.start_soon(self._tend, watching.cancel_scope)
                try:
                    with self._answering:
                        yield
                except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it
                    failure = error
                watching.cancel_scope.cancel()
        except asyncio.CancelledError:
            if self._ended_by is None:
                raise
            stay()  # the server has already waited for what `end` has cancelled
        if failure is not None:
            raise failure
        if self._ended_by is not None:
            raise self._ended_by

    async def _watch(self, scope: anyio.CancelScope) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass  # anything after the body is ignored
        scope.cancel()

    async def _tend(self, scope: anyio.CancelScope) -> None:
        """Fill silences, and drop a client that reads nothing: one task, because a timer per chunk would cost more."""
        options = self._options
        while True:
            now = time.monotonic()
            if self._sending_since is not None:
                due = self._sending_since + options.send_s
                if now >= due:
                    scope.cancel()
            elif self.streams:
                due = self._quiet_since + (options.heartbeat_s if self.started else options.first_byte_s)
                if now >= due:
                    await self.write(b": still here\n\n")
            else:
                due = now + options.send_s
            await anyio.sleep(min(max(due - now, 0.01), options.send_s, options.heartbeat_s))

    async def send_json(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        await self.send_bytes(encoded(value), "application/json", status, headers)

    async def send_bytes(
        self, body: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a body of any content type."""
        body = self._public(body)
        length = {"content-length": str(len(body))}
        await self._start(status, kind, length | dict(headers or {}))
        await self._deliver(body, more=False)

    async def write(self, frames: bytes) -> None:
        """Send events, the first of them after the status. Waits for a slow client."""
        if not self.started:
            # The second is for nginx, which would otherwise buffer the stream.
            usual = {"cache-control": "no-cache", "x-accel-buffering": "no"}
            await self._start(200, "text/event-stream; charset=utf-8", usual | self.stream_headers)
        await self._deliver(self._public(frames), more=True)

    async def finish(self) -> None:
        """End the stream."""
        self.streams = False
        await self._deliver(b"", more=False)

    async def _start(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.status = status
        all_headers = {"content-type": kind, **named(self.id), **headers}
        raw = [
            (name.encode("latin-1"), self._public(value.encode("latin-1", "replace")))
            for name, value in all_headers.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _deliver(self, body: bytes, *, more: bool) -> None:
        self._sending_since = time.monotonic()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self._quiet_since, self._sending_since = time.monotonic(), None
