"""A client that was used before a fork says so in the child; a new one works there."""

import os
import sys

import anyio.to_thread
import pytest
import warm
from patience import patience

from stretto.testing.server import ScriptedServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX systems fork"),
]

BEGIN = """
import asyncio, functools, os, signal, sys
from stretto import AsyncStretto, Stretto, StrettoError

print = functools.partial(print, flush=True)  # or a child writes what its parent has printed once more
MODEL, URL = sys.argv[1:]
OPTIONS = {"base_url": URL} if URL else {}

def ask(client):
    try:
        return client.ask("Why?", strategy="direct", max_tokens=8).text
    except StrettoError as error:
        return f"{type(error).__name__} {error}"

async def ask_async(client):
    try:
        return (await client.ask("Why?", strategy="direct", max_tokens=8)).text
    except StrettoError as error:
        return f"{type(error).__name__} {error}"

def in_child(what):
    if (child := os.fork()) == 0:
        signal.alarm(60)  # a child that hangs is ended
        print(what())
        sys.exit()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
USED = "StrettoError This client was made before a fork"


async def run(code, model, url=""):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + code, model, url]
    done = await anyio.to_thread.run_sync(lambda: warm.run(command, timeout=patience(60)))
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.splitlines()


SYNCHRONOUS = """
client = Stretto(MODEL, **OPTIONS)
before = ask(client)
print(in_child(lambda: ask(client)))
print(ask(client) == before)
"""
ASYNCHRONOUS = """
client = AsyncStretto(MODEL, **OPTIONS)
before = asyncio.run(ask_async(client))
print(in_child(lambda: asyncio.run(ask_async(client))))
print(asyncio.run(ask_async(client)) == before)
asyncio.run(client.aclose())
"""


NEW = """
print(in_child(lambda: ask(Stretto(MODEL, **OPTIONS))))
print(in_child(lambda: asyncio.run(ask_async(AsyncStretto(MODEL, **OPTIONS)))))
"""


@pytest.mark.thorough
async def test_a_used_client_of_a_server_refuses_in_the_child_at_once_goes_on_in_the_parent_and_a_new_one_works():
    async with ScriptedServer("Yes.") as server:
        said = await run(SYNCHRONOUS + ASYNCHRONOUS + NEW, "openai:any", server.openai_url)
    for refused, status, same in (said[:3], said[3:6]):
        assert refused.startswith(USED)
        assert refused.endswith("Make a new one in the child.")
        assert (status, same) == ("0", "True")
    assert said[6:] == ["Yes.", "0", "Yes.", "0"]


@pytest.mark.thorough
async def test_a_client_that_was_made_and_not_used_before_the_fork_works_in_the_child():
    code = "client = Stretto(MODEL, **OPTIONS)\nprint(in_child(lambda: ask(client)))\nprint(ask(client))"
    async with ScriptedServer("Yes.") as server:
        assert await run(code, "openai:any", server.openai_url) == ["Yes.", "0", "Yes."]
