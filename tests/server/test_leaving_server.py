"""What ends early: clients that go away, slow ones, servers that are told to stop."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress

import anyio
import httpx
import openai
import pytest
import warm
from live_server import QUESTION, in_front_of, serving, until
from patience import patience
from plans import plan
from ports import reserved_port

from stretto import AsyncStretto, SettingsError
from stretto.server import ServerOptions
from stretto.server.running import listening, risk
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer

pytestmark = pytest.mark.anyio
ASKED = {"model": "stretto-direct", "messages": QUESTION}
SLOW = HttpReply("Slowly.", time_to_first_token_s=3600)
STUCK = HttpReply("One two three four.", fault=Fault("stall", after=2))


def answering():
    """The tasks that write answers now."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "stretto answer"]


async def nothing_left(live):
    with anyio.fail_after(patience(10)):
        await live.upstream.wait_until(lambda upstream: upstream.active_streams == 0)
        await until(lambda: not answering() and not live.service.admission.running)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {"messages": QUESTION}),
        ("/v1/completions", {"prompt": "Why?"}),
        ("/v1/responses", {"input": "Why?"}),
        ("/v1/messages", {"messages": QUESTION, "max_tokens": 99}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_ends_its_calls(path, asked, stream):
    body = {"model": "stretto-direct", "stream": stream, **asked}
    async with in_front_of(STUCK) as live:
        async with live.http() as http, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post(path, json=body))
            await live.upstream.wait_until(lambda upstream: upstream.active_streams == 1)
            tasks.cancel_scope.cancel()
        await nothing_left(live)
        async with live.http() as http:
            with anyio.fail_after(patience(10)):
                while "stretto_clients_left_total{" not in (await http.get("/metrics")).text:
                    pass


async def test_a_client_that_leaves_in_mid_stream_ends_every_branch():
    sections = [ReplyRule("Write the section", STUCK), ReplyRule("", plan("Tyres", "Chain", "Bell"))]
    async with in_front_of(sections) as live, live.openai() as client:
        stream = await client.chat.completions.create(model="stretto-skeleton", messages=QUESTION, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await live.upstream.wait_until(lambda upstream: upstream.active_streams == 2)
        await stream.close()
        await nothing_left(live)


async def test_a_client_that_waits_for_its_turn_and_leaves_is_forgotten():
    async with in_front_of(SLOW, options=ServerOptions(port=0, concurrent_answers=1)) as live, live.http() as http:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: http.post("/v1/chat/completions", json=ASKED))
            tasks.start_soon(lambda: http.post("/v1/chat/completions", json=ASKED))
            await until(lambda: live.service.admission.waiting == 1)
            tasks.cancel_scope.cancel()
        await nothing_left(live)
        assert live.service.admission.waiting == 0


@pytest.mark.thorough
async def test_a_client_that_reads_nothing_is_given_up():
    long = HttpReply(("w" * 4_000 + " ") * 4_000)
    async with in_front_of(long, options=ServerOptions(port=0, send_s=0.2)) as live:
        with socket.socket() as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.connect(("127.0.0.1", int(live.url.rpartition(":")[2])))
            body = json.dumps(ASKED | {"stream": True}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
            opened.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
            await live.upstream.wait_until(lambda upstream: upstream.requests != [])
            await nothing_left(live)


@pytest.mark.thorough
async def test_a_long_silence_is_filled_with_comments_that_clients_skip():
    options = ServerOptions(port=0, first_byte_s=0.02, heartbeat_s=0.02)
    reply = HttpReply("Late but here.", time_to_first_token_s=0.3)
    async with in_front_of(reply, options=options) as live:
        async with live.http() as http:
            text = (await http.post("/v1/chat/completions", json=ASKED | {"stream": True})).text
        async with live.openai() as client:
            chunks = await client.chat.completions.create(**ASKED, stream=True)
            said = [choice.delta.content or "" async for chunk in chunks for choice in chunk.choices]
    assert text.startswith(": ")
    assert "".join(said) == "Late but here."


async def test_a_stream_that_breaks_in_the_middle_says_so_to_the_sdk():
    options = ServerOptions(port=0, first_byte_s=0.01)
    fault = HttpReply("", fault=Fault("status", status=500), time_to_first_token_s=0.1)
    async with in_front_of(fault, options=options) as live, live.openai() as client:
        with pytest.raises(openai.APIError):
            async for _ in await client.chat.completions.create(**ASKED, stream=True):
                pass


async def test_a_server_that_is_stopped_lets_its_answers_end():
    event, answers = anyio.Event(), []
    backend = ScriptedBackend({"": Reply("One two three.", hold=event)})

    async def ask(client):
        answers.append(await client.chat.completions.create(**ASKED))

    async with (
        AsyncStretto(backend) as stretto,
        serving(stretto) as live,
        live.openai() as client,
        live.http() as http,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(ask, client)
        await until(lambda: backend.running)
        live.server.handle_exit(signal.SIGTERM, None)
        await until(lambda: live.service.admission.draining)
        refused = await http.post("/v1/chat/completions", json=ASKED)
        ready, health = await http.get("/ready"), await http.get("/health")
        event.set()
    assert answers[0].choices[0].message.content == "One two three."
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert "retry-after" in refused.headers
    assert (ready.status_code, health.status_code) == (503, 200)


async def test_answers_that_do_not_end_in_time_are_ended_with_an_error():
    async with in_front_of(STUCK, options=ServerOptions(port=0, drain_s=0.05)) as live, live.openai() as client:
        stream = await client.chat.completions.create(**ASKED, stream=True)
        said = []
        with pytest.raises(openai.APIError, match="shutting down"):
            async for chunk in stream:
                said.append(chunk.choices[0].delta.content)
                if len(said) == 2:
                    live.server.handle_exit(signal.SIGTERM, None)
        await nothing_left(live)
    assert "".join(said)


@pytest.mark.parametrize("reply", [STUCK, SLOW])
@pytest.mark.parametrize("stream", [True, False])
async def test_answers_that_the_server_waits_for_no_longer_are_told_so_and_logged_in_a_line(stream, reply, caplog):
    """With a busy event loop they have been told to end, and are cancelled before they came to it."""
    refused = []

    async def ask(client):
        with pytest.raises(openai.APIError, match="shutting down") as caught:
            said = await client.chat.completions.create(**ASKED, stream=stream)
            async for _ in said:
                pass
        refused.append(caught.value)

    async with (
        in_front_of(reply, options=ServerOptions(port=0, drain_s=60)) as live,
        live.openai() as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(ask, client)
        await live.upstream.wait_until(lambda upstream: upstream.active_streams == 1)
        live.server.handle_exit(signal.SIGTERM, None)
        await until(lambda: live.service.admission.draining)
        with anyio.CancelScope() as scope:
            scope.cancel()  # it waits for none of them
            await live.service.admission.break_off(0)
        for task in live.server.server_state.tasks:
            task.cancel()
    assert len(refused) == 1
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


async def test_a_server_leaves_the_client_to_its_owner():
    async with AsyncStretto(ScriptedBackend({"": "Hello."})) as client:
        async with serving(client) as live, live.http() as http:
            assert (await http.get("/ready")).status_code == 200
        assert (await client.ask("Why?")).text == "Hello."


def test_a_connection_sends_each_piece_at_once_without_waiting_for_the_one_before():
    with listening(ServerOptions(port=0)) as opened, socket.create_connection(opened.getsockname()):
        accepted, _ = opened.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_taken_is_one_clear_error():
    with listening(ServerOptions(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port} is in use"):
            listening(ServerOptions(port=port))
    with pytest.raises(SettingsError, match=r"no\.such\.host\.invalid"):
        listening(ServerOptions(host="no.such.host.invalid"))


def test_options_out_of_range_are_named():
    with pytest.raises(SettingsError, match="concurrent_answers=0"):
        ServerOptions(concurrent_answers=0)


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True)])  # noqa: S104
async def test_the_risk_of_an_open_server_is_named(host, warned):
    async with in_front_of("Hello.") as live:
        said = risk(ServerOptions(host=host), live.service)
    assert (said is not None) == warned
    if warned:
        assert "without a key" in said


@contextmanager
def started(*arguments):
    """The server as a program, its address, and what it says afterwards."""
    command = [sys.executable, "-m", "stretto.cli", "serve", "--port", "0", "-m", "openai:llama", *arguments]
    with warm.started(command) as (program, said):
        line = next(line for line in said if " at http://" in line)
        yield program, line.split(" at ")[1].split("/v1")[0], said


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough)]
)
def test_the_program_ends_in_order_at_a_signal(sent, code):
    with started("--base-url", "http://127.0.0.1:1/v1") as (process, url, said):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=patience(5)) as opened:
            opened.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in opened.recv(4096)
        process.send_signal(sent)
        assert process.wait(patience(20)) == code
        told = said.read()
        assert f"A chat for the browser is at {url}/." in told
        assert "Traceback" not in told


@pytest.mark.thorough
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")  # noqa: PTH110
async def test_a_server_serves_though_nobody_can_read_what_it_says():
    command = [sys.executable, "-m", "stretto.cli", "serve", "-m", "openai:any", "--base-url", "http://127.0.0.1:1/v1"]
    with (
        reserved_port() as port,
        open("/dev/full", "w") as full,  # noqa: ASYNC230, PTH123
        subprocess.Popen([*command, "--port", str(port)], stderr=full) as process,  # noqa: ASYNC220
    ):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=patience(30)) as http:
            while True:
                assert process.poll() is None
                with suppress(httpx.ConnectError):
                    assert (await http.get("/health")).status_code == 200
                    break
        process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(process.wait, patience(60)) in (0, 120)  # 120: Python could not flush


@pytest.mark.thorough
def test_a_second_signal_ends_the_program_at_once():
    with (
        started("--base-url", "http://127.0.0.1:1/v1", "--drain", "600") as (process, url, _),
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=patience(5)) as opened,
    ):
        opened.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        opened.recv(4096)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(patience(20)) == 130


async def test_a_second_signal_ends_streams_with_the_error_of_their_api():
    async with ScriptedServer("word " * 500, tokens_per_second=20) as upstream:
        with started("--base-url", upstream.openai_url, "--drain", "600") as (process, address, said):
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
                asked = {"model": "stretto-direct", "messages": QUESTION, "stream": True}
                stream = await client.chat.completions.create(**asked)
                await anext(stream)
                process.send_signal(signal.SIGTERM)
                async with httpx.AsyncClient(base_url=address) as http:  # two signals at once may become one
                    while (await http.get("/health")).json()["status"] != "draining":
                        pass
                process.send_signal(signal.SIGTERM)
                with pytest.raises(openai.APIError, match="shutting down"):
                    async for _ in stream:
                        pass
            assert await anyio.to_thread.run_sync(process.wait, patience(20)) == 0
            assert "Traceback" not in said.read()


@pytest.mark.thorough
def test_a_port_in_use_and_a_missing_package_are_one_line_each():
    with listening(ServerOptions(port=0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "stretto.cli", "serve", "-m", "local:pocket", "--port", port]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(60))
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    blocked = "import sys; sys.modules['uvicorn'] = None; from stretto.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", blocked, "serve"], capture_output=True, text=True, check=False, timeout=patience(60)
    )
    assert result.returncode == 2
    assert "pip install 'stretto[server]'" in result.stderr
    assert result.stderr.count("\n") == 1
