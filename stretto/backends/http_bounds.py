"""Bounds on what is read of a response, below the SDKs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2

from stretto.backends.arrivals import expected
from stretto.backends.event_lines import EventLines

MOST_OF_AN_ERROR = 65_536  # bytes of its body that are read


async def receive(response: httpx2.Response) -> None:
    """Put bounds on a response that is about to be read; a hook of the HTTP client."""
    arrival = expected()
    if arrival is not None:
        arrival.headers = response.headers
    if response.status_code < 300 and arrival is None:
        return
    source = response.stream
    assert isinstance(source, httpx2.AsyncByteStream)  # noqa: S101 - a hook of an asynchronous client
    pieces: httpx2.AsyncByteStream | _Decoded = source
    if "content-encoding" in response.headers:
        pieces = _Decoded(source, httpx2.Headers(response.headers), response.request)
        del response.headers["content-encoding"]
    lines = arrival.lines if arrival is not None and response.status_code < 300 else None
    response.stream = _Bounded(source, pieces, lines)


class _Decoded:
    """The body without its compression: bounds hold for what it unfolds to."""

    def __init__(self, source: httpx2.AsyncByteStream, headers: httpx2.Headers, request: httpx2.Request) -> None:
        self._response = httpx2.Response(200, headers=headers, stream=source, request=request)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._response.is_stream_consumed:
            return
        async with aclosing(self._response.aiter_bytes()) as pieces:
            async for piece in pieces:
                yield piece


class _Bounded(httpx2.AsyncByteStream):
    """A body: of an event stream its lines, of anything else the beginning."""

    def __init__(
        self, source: httpx2.AsyncByteStream, pieces: httpx2.AsyncByteStream | _Decoded, lines: EventLines | None
    ) -> None:
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
