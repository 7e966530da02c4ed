"""Limits how much of a response is read, below the SDKs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from stretto.backends.providers.transport.event_lines import EventLines, expected

if TYPE_CHECKING:
    from httpx2 import AsyncByteStream, Headers, Request, Response  # httpx has the same four

MOST_OF_AN_ERROR = 65_536  # bytes of its body that are read


@cache
def bounding(library: ModuleType) -> Callable[[Response], Awaitable[None]]:
    """Create a response hook for a client of an HTTP library that limits how much of a response is read."""
    # The library only passes on instances of its own class.
    bounded = type("Bounded", (_Bounded, library.AsyncByteStream), {})

    async def receive(response: Response) -> None:
        arrival = expected()
        if arrival is not None:
            arrival.headers = response.headers
        if response.status_code < 300 and arrival is None:
            return
        source = response.stream
        assert isinstance(source, library.AsyncByteStream)  # noqa: S101 - a hook of an asynchronous client
        pieces: AsyncByteStream | _Decoded = source
        if "content-encoding" in response.headers:
            pieces = _Decoded(library, source, library.Headers(response.headers), response.request)
            del response.headers["content-encoding"]
        lines = arrival.lines if arrival is not None and response.status_code < 300 else None
        response.stream = bounded(source, pieces, lines)

    return receive


class _Decoded:
    """The decompressed body: the limits apply to its decompressed size."""

    def __init__(self, library: ModuleType, source: AsyncByteStream, headers: Headers, request: Request) -> None:
        self._response: Response = library.Response(200, headers=headers, stream=source, request=request)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._response.is_stream_consumed:
            return
        async with aclosing(self._response.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece


class _Bounded:
    """A limited body: of an event stream its lines, of anything else the beginning."""

    def __init__(self, source: AsyncByteStream, pieces: AsyncByteStream | _Decoded, lines: EventLines | None) -> None:
        self._source = source
        self._pieces = pieces
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._pieces)
        left = MOST_OF_AN_ERROR
        try:
            async for piece in pieces:
                if self._lines is not None:
                    if complete := self._lines.feed(piece):
                        yield complete
                    continue
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return
            if self._lines is not None:
                yield self._lines.end()
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()

    async def aclose(self) -> None:
        await self._source.aclose()
