"""Programs whose threads are greenlets: local models refuse to run there, and servers answer."""

import subprocess
import sys

import anyio
import pytest
from patience import patience

from stretto.testing.server import ScriptedServer

CODE = """
import sys
from gevent import monkey
monkey.patch_all()
import gevent
from stretto import BackendError, Stretto

def ask(number):
    return stretto.ask(f"Question {number}?", strategy="direct", deadline_s=50).text

with Stretto("local:pocket") as stretto:
    try:
        ask(0)
    except BackendError as error:
        print(error)
with Stretto("openai:any", base_url=sys.argv[1], api_key="none") as stretto:
    print(sorted(job.get() for job in [gevent.spawn(ask, number) for number in range(3)]))
"""


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_local_model_is_refused_and_a_server_answers():
    async with ScriptedServer("Fine.") as server:
        with anyio.fail_after(patience(60)):
            run = await anyio.run_process([sys.executable, "-c", CODE, f"{server.url}/v1"], check=False)
    assert run.stdout.decode().splitlines() == [
        "local:pocket cannot run in a program whose threads are greenlets, as after gevent.monkey.patch_all(): its "
        "threads wait for each other in compiled code. Run `stretto serve` in another process and ask that.",
        "['Fine.', 'Fine.', 'Fine.']",
    ]
    assert run.returncode == 0


LATE = """
import asyncio, sys
from stretto import AsyncStretto, Stretto, StrettoError
from stretto.testing import ScriptedBackend

scripted = ScriptedBackend({})
used, other = Stretto(scripted if sys.argv[1] == "scripted" else sys.argv[1]), Stretto(scripted)
used.load()
from gevent import monkey
monkey.patch_all()
import gevent

def ask(asks):
    try:
        return asks("Why?", strategy="direct", deadline_s=50)
    except StrettoError as error:
        print(error)

ask(used.ask)
ask(other.ask)
gevent.spawn(ask, used.ask).join()
ask(lambda *question, **options: asyncio.run(AsyncStretto(scripted).ask(*question, **options)))
used.close()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["scripted", pytest.param("local:pocket", marks=pytest.mark.thorough)])
@pytest.mark.anyio
async def test_threads_that_become_greenlets_after_the_import_are_one_clear_error(model):
    with anyio.fail_after(patience(60)):
        run = await anyio.run_process(
            [sys.executable, "-W", "ignore", "-c", LATE, model], check=False, stderr=subprocess.STDOUT
        )
    told = (
        "gevent.monkey.patch_all() was called after Stretto was imported. Call it before any other import, or start "
        "the program with python -m gevent.monkey.\n"
    )
    assert (run.returncode, run.stdout.decode()) == (0, told * 4)
