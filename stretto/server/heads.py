"""A bound for what comes before a body: uvicorn keeps the head of a request in memory, however long it gets."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stretto.server.exchange import encoded
from stretto.server.problems import Problem

MOST = 1 << 16  # bytes, beside the first and the last read of a head


class BoundedHead(HttpToolsProtocol):
    """uvicorn's protocol, which refuses a head or trailers beyond the bound with 431 and closes the connection."""

    _size: int | None = None  # bytes so far of a head, or of trailers, that is not whole
    _trails = False  # it is trailers
    _begun = False  # it began in what is being taken in

    def on_message_begin(self) -> None:
        """A request begins."""
        self._size, self._trails, self._begun = 0, False, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._size = None
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """A chunk begins, or the trailers behind the last one."""
        self._size, self._trails, self._begun = 0, True, True

    def on_body(self, body: bytes) -> None:
        """It is a chunk."""
        self._size = None
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._size = None
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Take in what was sent."""
        self._begun = False
        super().data_received(data)
        if self._size is None or self._begun:  # what came before it in the same read is not its own
            return
        self._size += len(data)
        if self._size > MOST and not self.transport.is_closing():
            self._refuse()

    def _refuse(self) -> None:
        if not self._trails and (self.cycle is None or self.cycle.response_complete):  # else it would be in a response
            message = f"The headers are larger than {MOST:,} bytes, the most this server takes. Send less."
            body = encoded(Problem(431, message, code="headers_too_large").as_openai())
            head = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()
