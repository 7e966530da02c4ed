"""What other tests lean on: a clock that leaps, and programs that are forked."""

import json
import sys

import anyio.abc
import anyio.to_thread
import pytest
import warm
from patience import patience

TELLING = """
import atexit, json, os, sys
atexit.register(print, "end")
print(json.dumps([sys.argv, input(), dict(os.environ)]))
sys.exit(7)
"""


@pytest.mark.anyio
@pytest.mark.leaping
async def test_an_hour_is_leapt_over_and_no_time_passes_while_a_thread_works():
    before = anyio.current_time()
    await anyio.sleep(3600)
    assert anyio.current_time() == pytest.approx(before + 3600)
    with anyio.fail_after(0.001):
        assert await anyio.to_thread.run_sync(sum, range(3_000_000)) > 0


@pytest.mark.anyio
@pytest.mark.leaping
async def test_what_a_socket_of_this_process_sends_arrives_before_any_time_passes():
    async def answer(stream):
        async with stream:
            await stream.send(await stream.receive())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of anyio
        with anyio.fail_after(0.001):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"Hello.")
                assert await stream.receive() == b"Hello."
        tasks.cancel_scope.cancel()


def test_a_forked_program_has_its_own_arguments_surroundings_and_end():
    done = warm.run([sys.executable, "-c", TELLING, "a"], timeout=patience(60), given="Why?\n", env={"ONLY": "this"})
    said, end = done.stdout.splitlines()
    assert json.loads(said) == [["-c", "a"], "Why?", {"ONLY": "this"}]
    assert (end, done.returncode, done.stderr) == ("end", 7, "")
    killed = warm.run([sys.executable, "-c", "import os\nos.kill(os.getpid(), 9)"], timeout=patience(60))
    assert killed.returncode == -9
