"""What comes before a body and behind it is bounded, however it is cut into segments."""

import json
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from live_server import QUESTION, serving, until
from patience import patience

from stretto import AsyncStretto
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

ASKED = {"model": "stretto-direct", "messages": QUESTION}
BODY = json.dumps(ASKED | {"user": "a" * 180_000}).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\n"
FIELDS = b"host: 127.0.0.1\r\ncontent-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
LINES = (b"x-long: " + b"a" * 1000 + b"\r\n") * 64


class Wire:
    """A connection, of which the server reads each segment by itself."""

    def __init__(self, stream, held):
        self._stream, self.held = stream, held
        self._sent = self._read = 0
        taken_in = held.data_received

        def counted(data):
            taken_in(data)
            self._read += len(data)

        held.data_received = counted

    async def send(self, segment):
        """Send a segment; return when it was read, or the connection closed."""
        self._sent += len(segment)
        await self._stream.send(segment)
        await until(lambda: self._read == self._sent or self.held.transport.is_closing())

    async def rest(self):
        """All that comes until the server closes the connection."""
        got = b""
        with anyio.fail_after(patience(20)), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                got += await self._stream.receive()
        return got


@asynccontextmanager
async def connected(reply="Hello."):
    """A connection to a server."""
    async with (
        AsyncStretto(ScriptedBackend({"": reply})) as client,
        serving(client) as live,
        await anyio.connect_tcp("127.0.0.1", int(live.url.rpartition(":")[2])) as stream,
    ):
        await until(lambda: live.server.server_state.connections)
        (held,) = live.server.server_state.connections
        yield Wire(stream, held)


def sized(body):
    return FIELDS + b"content-length: %d\r\n\r\n" % len(body) + body


async def test_a_small_head_in_two_segments_may_bring_a_large_body():
    async with connected() as wire:
        await wire.send(POST)
        await wire.send(b"connection: close\r\n" + sized(BODY))
        assert (await wire.rest()).startswith(b"HTTP/1.1 200 ")


async def test_a_small_head_in_one_segment_may_have_its_large_body_in_another():
    async with connected() as wire:
        head, body = (POST + b"connection: close\r\n" + sized(BODY)).split(b"\r\n\r\n")
        await wire.send(head + b"\r\n\r\n")
        await wire.send(body)
        assert (await wire.rest()).startswith(b"HTTP/1.1 200 ")


async def test_a_large_body_may_end_together_with_the_begin_of_another_head():
    async with connected() as wire:
        await wire.send(POST)
        await wire.send(sized(BODY) + b"GET /health HTTP/1.1\r\n")
        await wire.send(b"connection: close\r\n" + FIELDS + b"\r\n")
        assert (await wire.rest()).count(b"HTTP/1.1 200 ") == 2


async def test_a_large_chunk_may_end_together_with_the_begin_of_another():
    async with connected() as wire:
        await wire.send(POST + b"connection: close\r\n" + FIELDS + CHUNKED + b"%x\r\n" % (len(BODY) - 1))
        await wire.send(BODY[:-1] + b"\r\n1\r\n")
        await wire.send(BODY[-1:] + b"\r\n0\r\nx-small: 1\r\n\r\n")
        assert (await wire.rest()).startswith(b"HTTP/1.1 200 ")


async def test_a_head_in_two_segments_is_refused_where_it_is_too_long():
    async with connected() as wire:
        await wire.send(POST)
        await wire.send(LINES * 2)
        said = await wire.rest()
    assert said.startswith(b"HTTP/1.1 431 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


async def test_trailers_are_bounded():
    async with connected() as wire:
        await wire.send(b"GET /health HTTP/1.1\r\n" + FIELDS + CHUNKED + b"0\r\n")
        await until(lambda: wire.held.cycle.response_complete)
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)), anyio.fail_after(patience(60)):
            for _ in range(512):
                await wire.send(LINES)
        assert wire.held.transport.is_closing()


async def test_a_long_head_behind_a_request_does_not_write_into_its_answer():
    body = json.dumps(ASKED | {"stream": True, "stretto": {"events": True}}).encode()
    async with connected(Reply("Hello.", hold=anyio.Event())) as wire:
        await wire.send(POST + sized(body))
        await until(lambda: wire.held.cycle.response_started)
        await wire.send(b"GET /health HTTP/1.1\r\n")
        await wire.send(LINES * 2)
        said = await wire.rest()
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 431" not in said


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("lines", "status"),
    [(b"a: b\r\n" * 10_700, b"200"), (b"a: b\r\n" * 20_000, b"431"), (b"x: " + b"a" * 66_000 + b"\r\n", b"431")],
)
async def test_the_bound_does_not_depend_on_how_a_head_is_cut(lines, status, whole):
    async with connected() as wire:
        head = b"GET /health HTTP/1.1\r\nconnection: close\r\n" + FIELDS + lines + b"\r\n"
        segments = [head] if whole else [head[at : at + 30_000] for at in range(0, len(head), 30_000)]
        for segment in segments:
            if not wire.held.transport.is_closing():
                await wire.send(segment)
        assert (await wire.rest()).startswith(b"HTTP/1.1 " + status)


async def test_a_long_address_counts():
    async with connected() as wire:
        await wire.send(b"GET /health?" + b"a" * 66_000 + b" HTTP/1.1\r\n" + FIELDS + b"\r\n")
        assert (await wire.rest()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("hosts", [b"host: localhost\r\nHost: localhost\r\n", b"host: a\r\nx: y\r\nhost: b\r\n", b""])
async def test_a_request_has_one_host(hosts):
    async with connected() as wire:
        await wire.send(b"GET /health HTTP/1.1\r\n" + hosts + b"\r\n")
        said = await wire.rest()
    assert said.startswith(b"HTTP/1.1 400 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_host"


async def test_what_follows_a_refused_request_is_not_answered():
    async with connected() as wire:
        await wire.send(b"GET /health HTTP/1.1\r\n\r\n" + b"GET /health HTTP/1.1\r\n" + FIELDS + b"\r\n")
        assert (await wire.rest()).count(b"HTTP/1.1 ") == 1
