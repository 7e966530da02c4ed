"""The program against an HTTP server, nothing replaced: options, keys, errors and exit codes as a user meets them."""

import os
import sys

import anyio
import pytest
from patience import patience

from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer

pytestmark = pytest.mark.anyio
KEY = "sk-test-0123456789abcdef"


async def ask(server, *arguments, **environment):
    command = [sys.executable, "-m", "stretto.cli", "ask", "-m", "openai:scripted", "--base-url", server.openai_url]
    with anyio.fail_after(patience(60)):
        result = await anyio.run_process(
            [*command, *arguments], check=False, env={**os.environ, "STRETTO_ATTEMPTS": "1", **environment}
        )
    return result.returncode, result.stdout.decode(), result.stderr.decode()


async def test_points_are_written_in_parallel_and_printed_in_order():
    rules = [ReplyRule("1\\. Tea", "Some words about it."), ReplyRule("", "1. Tea\n2. Milk\n3. Sugar\n")]
    async with ScriptedServer(rules) as server:
        code, answer, said = await ask(server, "-s", "skeleton", "How do I make tea?")
    assert code == 0, said
    assert answer.index("Tea") < answer.index("Milk") < answer.index("Sugar")
    assert answer.count("Some words about it.") == 3
    assert "4 calls" in said


async def test_a_wrong_key_is_one_line_and_is_not_shown():
    async with ScriptedServer("Hello.", key="sk-another-key") as server:
        code, answer, said = await ask(server, "-q", "-s", "direct", "--key-variable", "MY_KEY", "Why?", MY_KEY=KEY)
    assert (code, answer) == (4, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert KEY not in said


async def test_the_key_of_the_variable_opens_the_server():
    async with ScriptedServer("Hello.", key=KEY) as server:
        assert await ask(server, "-q", "-s", "direct", "--key-variable", "MY_KEY", "Why?", MY_KEY=KEY) == (
            0,
            "Hello.\n",
            "",
        )


async def test_a_server_that_fails_is_one_line():
    async with ScriptedServer("Hello.") as server:
        server.script(*[Fault("status", status=500)] * 8)
        code, answer, said = await ask(server, "-q", "-s", "direct", "Why?")
    assert (code, answer) == (1, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1


async def test_an_answer_that_the_server_cuts_is_incomplete():
    async with ScriptedServer(HttpReply("Hello there", finish="length")) as server:
        code, answer, _ = await ask(server, "-q", "-s", "direct", "Why?")
    assert (code, answer) == (3, "Hello there\n")
