"""What the tests of the backends share: asking, listening, and counting what is left behind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio.lowlevel

from stretto.backends.base import Backend, ModelRequest
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.values.answer import Usage
from stretto.values.request import GenerationOptions, Message

KEY = "sk-test-0123456789abcdefghijkl"
ACCOUNTED = HttpReply("Hello there, world.", prompt_tokens=9, cached_tokens=4, reasoning_tokens=5)


def open_sockets():
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:
            continue  # the folder's own descriptor is gone by now
    return sum(link.startswith("socket:") for link in links)


def own_threads():
    # The event loop keeps the threads of its pool, which the SDKs ask about the platform in.
    return sum(not thread.name.startswith(("asyncio_", "AnyIO worker")) for thread in threading.enumerate())


@dataclass
class Left:
    """What runs in this process: tasks, threads, open sockets."""

    tasks: int = field(default_factory=lambda: len(asyncio.all_tasks()))
    threads: int = field(default_factory=own_threads)
    sockets: int = field(default_factory=open_sockets)


async def settled():
    """Count what is left once the loop has ended what is ending.

    The SDKs leave their generators to the garbage collector, which closes them, from the outside
    in, in the next turns of the loop.
    """
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    return Left()


@asynccontextmanager
async def served(connect, replies, **settings):
    """A scripted server and the backend that ``connect`` makes for it."""
    async with ScriptedServer(replies, **settings) as server:
        backend = connect(server)
        yield backend, server
        await backend.aclose()


def asking(text="Say hello.", **changes):
    return ModelRequest(messages=(Message(role="user", content=text),), **changes)


@dataclass
class Heard:
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    finish: str | None = None
    headers: dict = field(default_factory=dict)


async def hear(backend: Backend, prompt=None, options=None, heard=None) -> Heard:
    """Read one answer to its end; pass ``heard`` to keep what was read before an error."""
    heard = heard or Heard()
    async with backend.stream(prompt or asking(), options or GenerationOptions()) as chunks:
        async for chunk in chunks:
            heard.text += chunk.text
            heard.usage += chunk.usage or Usage()
            heard.finish = chunk.finish_reason or heard.finish
            heard.headers |= chunk.headers
    return heard


def check_account(heard):
    """Text, end and usage are those of `ACCOUNTED`."""
    assert heard.text == "Hello there, world."
    assert heard.finish == "stop"
    assert heard.usage.model_dump(exclude_defaults=True) == {
        "prompt_tokens": 9,
        "completion_tokens": 8,
        "cached_tokens": 4,
        "reasoning_tokens": 5,
        "calls": 1,
    }
