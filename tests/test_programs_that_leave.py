"""Programs that end with a stream, a client or a thread that asks, and those that ask while modules are imported."""

import subprocess
import sys

import pytest
import warm
from patience import patience


def test_sys_exit_in_the_loop_over_a_stream_ends_the_program_with_its_status():
    code = """
import sys
from stretto import Stretto
from stretto.testing import ScriptedBackend
stretto = Stretto(ScriptedBackend({"": "One two three."}))
with stretto.stream("Why?", strategy="direct") as events:
    for _ in events:
        sys.exit(7)
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(60))
    assert (done.returncode, done.stderr) == (7, "")


def test_a_generator_left_before_the_event_loop_ends_leaves_nothing_to_complain_of():
    code = """
import asyncio
from stretto import AsyncStretto
from stretto.testing import ScriptedBackend

async def words(stretto):
    async with stretto.stream("Why?", strategy="direct") as events:
        async for text in events.text():
            yield text

async def main():
    stretto = AsyncStretto(ScriptedBackend({"": "One two three."}))
    kept = words(stretto)
    await anext(kept)
    async for _ in words(stretto):
        break
    globals()["kept"] = kept

asyncio.run(main())
"""
    done = warm.run([sys.executable, "-W", "error", "-c", code], timeout=patience(60))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_the_first_question_does_not_hold_up_the_event_loop_while_modules_are_imported():
    code = """
import asyncio, importlib.abc, sys, threading
from stretto import AsyncStretto
from stretto.testing import ScriptedBackend

asked, turned = threading.Event(), threading.Event()

class Waiting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "stretto.router":
            asked.set()
            print(turned.wait(10))

sys.meta_path.insert(0, Waiting())

async def other():
    while not asked.is_set():
        await asyncio.sleep(0)
    turned.set()

async def main():
    async with AsyncStretto(ScriptedBackend({"": "Yes."})) as stretto:
        running = asyncio.create_task(other())
        print(await stretto.ask("Why?", strategy="direct"))
        await running

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(60), check=True
    )
    assert done.stdout == "True\nYes.\n"


def test_a_stream_that_nobody_left_ends_without_a_word_when_the_program_does():
    code = """
import anyio
from stretto import Stretto
from stretto.testing import Reply, ScriptedBackend
client = Stretto(ScriptedBackend({"": Reply(chunks=["One", "two"], chunk_delay_s=3600)}))
context = client.stream("Why?", strategy="direct")
assert next(context.__enter__().text()) == "One"
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(60))
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.thorough
@pytest.mark.parametrize("client", ["Stretto", "AsyncStretto"])
def test_the_deadline_holds_while_the_library_is_imported(client):
    code = f"""
import sys, threading, anyio
from stretto import {client}, DeadlineExceededError
from stretto.testing import ScriptedBackend
go_on = threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == "stretto.strategies.runtime.assembly":
            go_on.wait()
sys.meta_path.insert(0, Slow())
client = {client}(ScriptedBackend({{"": "Yes."}}))
async def answer(**options):
    return await client.ask("Why?", **options)
def ask(**options):
    return client.ask("Why?", **options) if {client == "Stretto"} else anyio.run(lambda: answer(**options))
try:
    ask(deadline_s=0.05)
except DeadlineExceededError as error:
    print(error)
go_on.set()
print(ask(deadline_s=60))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(60), check=True
    )
    assert done.stdout.splitlines() == [
        "The deadline passed after 0.05 s, while the library was still being imported. Allow more with deadline_s.",
        "Yes.",
    ]


def test_a_thread_that_works_on_behind_the_programs_last_line_gets_its_answer():
    code = """
import asyncio, threading
from stretto import Stretto
from stretto.testing import ScriptedBackend

class LooksUp(ScriptedBackend):
    async def _chunks(self, prompt, options, reply):
        threading.main_thread().join()  # Python's own pools of threads end with it
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        async for chunk in super()._chunks(prompt, options, reply):
            yield chunk

client = Stretto(LooksUp({"": "A straight answer."}))
threading.Thread(target=lambda: print(client.ask("Why?", strategy="direct"))).start()
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(60))
    assert (done.stdout, done.stderr) == ("A straight answer.\n", "")


def test_a_client_that_nobody_closed_ends_with_the_program_without_a_word():
    """Also where the interpreter starts no more threads by then, as that of Python 3.12."""
    code = """
import atexit, threading
from stretto import Stretto
from stretto.testing import ScriptedBackend

client = Stretto(ScriptedBackend({"": "A straight answer."}))
print(client.ask("Why?", strategy="direct"))

def refuse(*arguments, **options):
    raise RuntimeError("can't create new thread at interpreter shutdown")

@atexit.register  # what is registered last runs first
def forbid():
    threading._start_new_thread = threading._start_joinable_thread = refuse
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(60))
    assert (done.returncode, done.stdout, done.stderr) == (0, "A straight answer.\n", "")


@pytest.mark.parametrize("call", ["stream", "again"])
def test_a_daemon_thread_that_asks_while_the_program_ends_is_ended_without_a_word(call):
    code = f"""
import atexit, threading
atexit.register(lambda: (asking.join(60), print("ended", not asking.is_alive())))  # after the client is closed
import anyio
from stretto import Stretto, StrettoError
from stretto.testing import ScriptedBackend
hangs = threading.Event()

class Endless(ScriptedBackend):
    async def _chunks(self, prompt, options, reply):
        async for chunk in super()._chunks(prompt, options, reply):
            yield chunk
            hangs.set()
            await anyio.sleep_forever()

client = Stretto(Endless({{"": "One two."}}))

def ask():
    try:
        if {call!r} == "stream":
            with client.stream("Why?", strategy="direct") as events:
                list(events)
        client.ask("Why?", strategy="direct")
    except StrettoError:
        print("an error")
    finally:
        print("left")
        if {call!r} == "again":
            client.ask("Why?", strategy="direct")

asking = threading.Thread(target=ask, daemon=True)
asking.start()
hangs.wait()
"""
    done = warm.run([sys.executable, "-c", code], timeout=patience(60))
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\nended True\n", "")
