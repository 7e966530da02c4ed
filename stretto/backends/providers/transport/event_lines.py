"""The response to one call, below the SDK: its headers, and its bytes within bounds."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

MOST_EVENT = 8 * 2**20  # bytes of one event, and of a body that is not an event stream
MOST_LINES = 1_000  # of one event: for each line, the SDKs copy what they have of it
_FIELDS = (b"data:", b"event:", b"id:", b"retry:")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LAST_DATA = 65_536  # bytes
_DONE = b"[DONE]"  # OpenAI's mark for the end of a stream


class BodyTooLargeError(Exception):
    """A server sent more than any answer needs."""


class EventLines:
    r"""A filter that passes on an event stream in complete lines, and keeps whatever precedes its first field.

    Line ends become ``\n``. Comments and empty events are dropped: they mean nothing, and can be endless.
    The marker ``[DONE]`` is dropped with all that follows: an SDK that sees it stops reading, and leaves the
    connection, and its generators, half read. Without the marker it reads to the end of the body, and both are free.

    Attributes:
        other: what preceded the first field; all of a body that is not an event stream.
        last_data: the beginning of the last data line.
    """

    def __init__(self) -> None:
        self.other = bytearray()
        self.last_data = b""
        self._begun = self._done = False
        self._partial = bytearray()
        self._size = self._lines = 0  # of the incomplete event

    def feed(self, piece: bytes) -> bytes:
        """Add a chunk, and return the lines completed by it. Raises `BodyTooLargeError`."""
        # A carriage return at the very end could be the first half of a line end.
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, -1)) + 1
        if end == 0:
            self._partial += piece
            self._check(len(self._partial), "one line")
            return b""
        complete, self._partial = self._partial + piece[:end], bytearray(piece[end:])
        return b"".join(self._line(line) for line in complete.splitlines())

    def end(self) -> bytes:
        """Return what is left without a line end."""
        rest, self._partial = bytes(self._partial), bytearray()
        return b"".join(self._line(line) for line in rest.splitlines())

    def _line(self, line: bytes | bytearray) -> bytes:
        if self._done:
            return b""
        if not self._begun:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            if not line.startswith(_FIELDS):
                self.other += line + b"\n"
                self._check(len(self.other), "a body that is not a stream of events")
                return b""
            self._begun = True
        if line.startswith(b":"):
            return b""
        if not line:
            began, self._size, self._lines = self._lines > 0, 0, 0
            return b"\n" if began else b""
        if line.startswith(b"data:"):
            self.last_data = bytes(line[5:_LAST_DATA])
            if self.last_data.lstrip().startswith(_DONE):
                self._done = True
                return b"\n" if self._lines else b""
        self._size += len(line)
        self._lines += 1
        self._check(self._size, "one event")
        if self._lines > MOST_LINES:
            raise BodyTooLargeError(f"one event has more than {MOST_LINES:,} lines.")
        return bytes(line) + b"\n"

    def _check(self, size: int, what: str) -> None:
        if size > MOST_EVENT:
            raise BodyTooLargeError(f"{what} is longer than {MOST_EVENT // 2**20} MiB.")


class JsonLines(EventLines):
    """A filter that converts each line of a stream of JSON objects into a server-sent event."""

    def _line(self, line: bytes | bytearray) -> bytes:
        if not self._begun:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            is_object = line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")
            if self.other.strip() or not is_object:  # a body that is not streamed, or of another kind
                return super()._line(line)
        return super()._line(b"data:" + line) + super()._line(b"") if line.strip() else b""


@dataclass
class Arrival:
    """The response to one call that requests a stream.

    Code that wraps the SDK's methods, for tracing for instance, can wrap their results as well; this does not
    depend on it.
    """

    lines: EventLines
    headers: Mapping[str, str] = field(default_factory=dict)


_expected: ContextVar[Arrival | None] = ContextVar("stretto_arrival", default=None)


@contextmanager
def arriving(lines: EventLines) -> Iterator[Arrival]:
    """Expect the response to the call sent in this context, and read its lines with ``lines``."""
    arrival = Arrival(lines)
    before = _expected.set(arrival)
    try:
        yield arrival
    finally:
        _expected.reset(before)


def expected() -> Arrival | None:
    """Return what the calling task expects to arrive."""
    return _expected.get()


async def json_events(body: AsyncIterator[bytes]) -> AsyncGenerator[Any]:
    """Yield the ``data`` of each event, parsed.

    Skips the SDK's models for events, which take most of its time.

    ``body`` comes in complete lines, as from `EventLines`. Other fields of an event add nothing to its data, and an
    event without data says nothing. Raises `json.JSONDecodeError`.
    """
    data = b""
    async for lines in body:
        for line in lines.split(b"\n")[:-1]:
            if line.startswith(b"data:"):
                data += line[5:] + b"\n"
            elif not line:
                if data.strip():
                    yield json.loads(data)
                data = b""
    if data.strip():
        yield json.loads(data)
