"""A bound for what comes before a body: uvicorn keeps the head of a request in memory, however long it gets."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stretto.server.exchange import encoded
from stretto.server.problems import Problem

MOST = 1 << 16  # bytes, and what comes with the last of them in one read


class BoundedHead(HttpToolsProtocol):
    """uvicorn's protocol, which refuses a head beyond the bound with 431 and closes the connection."""

    _head: int | None = None  # bytes so far of a head that is not whole

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._head = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take in what was sent."""
        if self._head is not None:
            self._head += len(data)
            if self._head > MOST:
                self._refuse()
                return
        super().data_received(data)

    def _refuse(self) -> None:
        message = f"The headers are larger than {MOST:,} bytes, the most this server takes. Send less."
        body = encoded(Problem(431, message, code="headers_too_large").as_openai())
        head = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()
