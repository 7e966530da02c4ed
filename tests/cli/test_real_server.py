"""The commands against an HTTP server, nothing replaced: options, keys, errors and exit codes as a user meets them."""

import sys
from contextlib import contextmanager

import pytest
import warm
from anyio.from_thread import start_blocking_portal
from patience import patience
from plans import plan
from typer.testing import CliRunner

from stretto.cli.app import app
from stretto.cli.usage import spelled_out
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer

KEY = "sk-test-0123456789abcdef"


@contextmanager
def serving(replies, **how):
    """A scripted server in the event loop of another thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(ScriptedServer(replies, **how)) as server:
        yield server


def asked(server, *arguments):
    return ["ask", "-m", "openai:scripted", "--base-url", server.openai_url, *arguments]


@pytest.fixture
def ask():
    """Runs the command in this process; gives its exit code and what it wrote to both outputs."""

    def run(server, *arguments, **environment):
        runner = CliRunner(env={"STRETTO_ATTEMPTS": "1", **environment})
        result = runner.invoke(app, spelled_out(asked(server, *arguments)), prog_name="stretto")
        return result.exit_code, result.stdout, result.stderr

    return run


def test_the_program_writes_sections_in_parallel_and_prints_them_in_order():
    rules = [ReplyRule("Write the section", "Some words about it."), ReplyRule("", plan("Tea", "Milk", "Sugar"))]
    with serving(rules) as server:
        command = [sys.executable, "-m", "stretto.cli", *asked(server, "-s", "skeleton", "How do I make tea?")]
        done = warm.run(command, timeout=patience(60))
    answer, said = done.stdout, done.stderr
    assert done.returncode == 0, said
    assert answer.index("Tea") < answer.index("Milk") < answer.index("Sugar")
    assert answer.count("Some words about it.") == 3
    assert "4 calls" in said


def test_a_wrong_key_is_one_line_and_is_not_shown(ask):
    with serving("Hello.", key="sk-another-key") as server:
        code, answer, said = ask(server, "-q", "-s", "direct", "--key-variable", "MY_KEY", "Why?", MY_KEY=KEY)
    assert (code, answer) == (4, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert KEY not in said


def test_the_key_of_the_variable_opens_the_server(ask):
    with serving("Hello.", key=KEY) as server:
        assert ask(server, "-q", "-s", "direct", "--key-variable", "MY_KEY", "Why?", MY_KEY=KEY) == (
            0,
            "Hello.\n",
            "",
        )


def test_a_server_that_fails_is_one_line(ask):
    with serving("Hello.") as server:
        server.script(*[Fault("status", status=500)] * 8)
        code, answer, said = ask(server, "-q", "-s", "direct", "Why?")
    assert (code, answer) == (1, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1


def test_an_answer_that_the_server_cuts_is_incomplete(ask):
    with serving(HttpReply("Hello there", finish="length")) as server:
        code, answer, _ = ask(server, "-q", "-s", "direct", "Why?")
    assert (code, answer) == (3, "Hello there\n")
