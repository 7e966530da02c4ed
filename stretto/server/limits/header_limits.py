"""Requires one host, and limits what precedes a body, since uvicorn keeps it in memory however long it gets."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stretto.server.exchange import encoded
from stretto.server.problems import Problem

MOST = 1 << 16  # bytes of a head, without method and version; likewise of trailers
_OVERHEAD = len(": \r\n")  # bytes of a line that belong to neither name nor value
_TOO_LARGE = Problem(
    431, f"The headers are larger than {MOST:,} bytes, the most this server takes. Send less.", code="headers_too_large"
)
_HOSTS = Problem(400, "A request names its host in one line, Host. Send that line once.", code="invalid_host")
_STATUS = {400: "Bad Request", 431: "Request Header Fields Too Large"}


class BoundedHead(HttpToolsProtocol):
    """uvicorn's protocol, except that it refuses a bad head and closes the connection.

    It counts what was parsed, so it does not matter how a head is split into segments. The parser reports nothing of an
    incomplete line: there, the received bytes count.
    """

    _problem: Problem | None = None  # anything after it in the same segment is ignored
    _length = 0  # bytes of complete lines
    _size: int | None = None  # bytes received of an incomplete head or trailers
    _trails = False  # whether these are trailers
    _begun = False  # whether it began in the current segment

    def on_message_begin(self) -> None:
        if self._problem is None:
            self._begin(trails=False)
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Handle the request target, or the next piece of it."""
        if self._fits(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._fits(len(name) + len(value) + _OVERHEAD) and not self._trails:  # trailers are dropped
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._size = None
        hosts = sum(name == b"host" for name, _ in self.headers)
        if self._problem is None and (hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1")):
            self._problem = _HOSTS  # as RFC 9112 requires: a proxy might have read another host
        if self._problem is None:
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Handle the start of a chunk, or of the trailers after the last one."""
        self._begin(trails=True)

    def on_body(self, body: bytes) -> None:
        self._size = None
        if self._problem is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._size = None
        if self._problem is None:
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._begun = False
        super().data_received(data)
        if self._size is not None and not self._begun:  # what precedes it in the same segment is not part of it
            self._size += len(data)
            self._fits(0, self._size)
        if self._problem is not None and not self.transport.is_closing():
            self._refuse(self._problem)

    def _begin(self, *, trails: bool) -> None:
        self._length, self._size, self._trails, self._begun = 0, 0, trails, True

    def _fits(self, more: int, received: int = 0) -> bool:
        self._length += more
        if self._problem is None and max(self._length, received) > MOST:
            self._problem = _TOO_LARGE
        return self._problem is None

    def _refuse(self, problem: Problem) -> None:
        if not self._trails and (self.cycle is None or self.cycle.response_complete):  # not inside a response
            body = encoded(problem.as_openai())
            head = f"HTTP/1.1 {problem.status} {_STATUS[problem.status]}\r\ncontent-type: application/json\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()
