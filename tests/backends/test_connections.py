"""No connection outlives its event loop or its client."""

import asyncio
import gc
import socket
import threading

import anyio
import anyio.lowlevel
import pytest
from patience import patience

from stretto import AsyncStretto, StrettoError
from stretto.testing.server import ScriptedServer


@pytest.fixture
def server_url():
    """Of a server in a separate thread."""
    started, stop, urls = threading.Event(), [], []

    async def serve():
        async with ScriptedServer("Yes.") as server:
            urls.append(server.openai_url)
            ended = asyncio.Event()
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(ended.set))
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(patience(60))
    yield urls[0]
    stop[0]()
    thread.join(patience(60))


def sockets_to(url):
    """Sockets of this process that are connected to the server, as its client."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    found = []
    for each in gc.get_objects():
        if issubclass(type(each), socket.socket) and each.fileno() != -1:  # isinstance would ask lazy objects of torch
            try:
                found += [each] if each.getpeername()[1] == port else []
            except (OSError, IndexError):
                continue
    return found


def test_a_client_used_in_many_event_loops_keeps_no_connection_of_those_that_ended(server_url):
    client = AsyncStretto("openai:any", base_url=server_url)
    for _ in range(5):
        assert asyncio.run(client.ask("Why?", strategy="direct")).text == "Yes."
        assert sockets_to(server_url) == []
    asyncio.run(client.aclose())
    with pytest.raises(StrettoError, match="is closed"):
        asyncio.run(client.ask("Why?", strategy="direct"))


def test_closing_a_client_in_another_event_loop_closes_the_connections_of_one_that_still_runs(server_url):
    client = AsyncStretto("openai:any", base_url=server_url)
    with asyncio.Runner() as runner:
        runner.run(client.ask("Why?", strategy="direct"))
        assert len(sockets_to(server_url)) == 1
        thread = threading.Thread(target=lambda: asyncio.run(client.aclose()))
        thread.start()
        thread.join(patience(60))

        async def all_closed():
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            return sockets_to(server_url) == []

        assert runner.run(all_closed())


@pytest.mark.anyio
async def test_closing_a_client_at_any_moment_of_connecting_leaves_no_socket():
    async with ScriptedServer("Yes.") as server:
        for turns in range(40):
            client = AsyncStretto("openai:any", base_url=server.openai_url)
            asking = asyncio.create_task(client.ask("Why?", strategy="direct"))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            await client.aclose()
            try:
                assert (await asking).text == "Yes."
            except StrettoError as error:
                assert "closed" in str(error)  # noqa: PT017 - either may come first
        gc.collect()  # a socket left open warns, and warnings are errors
