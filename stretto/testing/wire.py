"""One HTTP/1.1 connection of the scripted server, including resets and silences."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stretto.testing.protocols import prompt_of

_SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})


@dataclass(slots=True)
class ReceivedRequest:
    """A request as it arrived, without its key, and what became of it. Times are seconds of the event loop's clock.

    Attributes:
        method: ``GET`` or ``POST``.
        path: the path of the URL, for instance ``/v1/chat/completions``.
        headers: by their names in lower case.
        body: the JSON that was sent.
        arrived_s: when it arrived.
        started_s: when its turn came, if it had to wait for one.
        first_token_s: when the first token was passed to the connection; ``None``: not yet.
        tokens_s: when each token was.
        ended_s: when it was answered or given up; ``None``: not yet.
        outcome: ``open`` while it is being answered, then ``finished``, ``left`` (the client left first), or the kind
            of the fault.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    arrived_s: float
    started_s: float | None = None
    first_token_s: float | None = None
    tokens_s: list[float] = field(default_factory=list)
    ended_s: float | None = None
    outcome: str = "open"

    @property
    def prompt(self) -> str:
        """All text of the request."""
        return prompt_of(self.body)


class ClientLeft(Exception):  # noqa: N818 - something that happens on a connection, not an error
    """The client closed the connection before its answer was complete."""


@dataclass(slots=True)
class Connection:
    """A connection that reads requests and writes responses; ``headers`` go with the next response."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    headers: Mapping[str, str] = field(default_factory=dict)
    _disconnected: asyncio.Task[bytes] | None = None

    async def read_request(self) -> tuple[ReceivedRequest, str] | None:
        """Read the next request and its key; ``None`` if the client sends no more."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        raw = await self.reader.readexactly(int(headers.get("content-length", "0")))
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        shown = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
        now = asyncio.get_running_loop().time()
        return ReceivedRequest(method, path.split("?")[0], shown, json.loads(raw) if raw else {}, now), key

    async def send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        extra = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        await self._send(self._head(status, extra) + data)

    async def send_page(self, status: int, body: Any) -> None:
        """Send a complete response: a text unchanged, anything else as JSON."""
        if isinstance(body, str):
            data = body.encode()
            extra = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(data))}
            await self._send(self._head(status, extra) + data)
        else:
            await self.send_json(status, body)

    async def start_events(self) -> None:
        """Send the headers of an event stream."""
        await self.start(200, {"content-type": "text/event-stream"})

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the headers of a body that is sent in pieces."""
        await self._send(self._head(status, {**headers, "transfer-encoding": "chunked"}))

    async def send_events(self, data: bytes) -> None:
        """Send a piece of an event stream immediately."""
        await self._send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_events(self) -> None:
        """End an event stream; the connection stays open."""
        await self._send(b"0\r\n\r\n")

    async def pause(self, seconds: float | None) -> None:
        """Wait, but no longer than the client stays; ``None``: until it leaves. Raises `ClientLeft`."""
        if seconds is not None and seconds <= 0:
            return
        if self._disconnected is None:
            # Clients do not pipeline, so a byte or an end of file during an answer means that the client has left.
            self._disconnected = asyncio.create_task(self.reader.read(1))
        done, _ = await asyncio.wait({self._disconnected}, timeout=seconds)
        if done:
            raise ClientLeft

    async def stop_watching(self) -> None:
        """Stop what `pause` started, so that the next request can be read."""
        if self._disconnected is not None:
            self._disconnected.cancel()
            await asyncio.wait({self._disconnected})
            self._disconnected = None

    def reset(self) -> None:
        """Send RST instead of FIN, like a crashed server or a firewall."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**self.headers, **headers}.items())
        return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1")

    async def _send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
