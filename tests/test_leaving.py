"""However a stream is left, what ran is cancelled, the caller is not, and the client answers the next question."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
import warm
from patience import patience

from stretto import AnswerFinished, AsyncStretto, Stretto, StrettoError
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

ENDLESS = {"endless": "One two three.", "": "A straight answer."}
TURNS = 200  # of the event loop: more than anything here takes


class Endless(ScriptedBackend):
    """Hangs after the first chunk of an answer to a prompt with the word endless, and tells when it does."""

    def __init__(self, on_hang=lambda: None):
        super().__init__(ENDLESS)
        self.on_hang = on_hang

    async def _chunks(self, prompt, options, reply):
        async for chunk in super()._chunks(prompt, options, reply):
            yield chunk
            if "endless" in prompt.messages[-1].content:
                self.on_hang()
                await anyio.sleep_forever()


class SlowToLeave(Endless):
    """Takes some turns of the event loop to clean up."""

    @asynccontextmanager
    async def stream(self, prompt, options):
        async with super().stream(prompt, options) as chunks:
            try:
                yield chunks
            finally:
                with anyio.CancelScope(shield=True):
                    await turns(20)


async def turns(count):
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def words(stretto):
    with stretto.stream("endless", strategy="direct") as events:
        yield from events.text()


async def async_words(stretto):
    async with stretto.stream("endless", strategy="direct") as events:
        async for text in events.text():
            yield text


@pytest.fixture
def backend():
    return Endless()


@pytest.fixture
def stretto(backend):
    with Stretto(backend) as client:
        yield client
        assert str(client.ask("Why?", strategy="direct")) == "A straight answer."
        assert backend.running == 0


def test_a_generator_around_a_stream_that_is_abandoned_leaves_the_synchronous_client_working(stretto, backend):
    abandoned = words(stretto)
    assert next(abandoned) == "One"
    assert backend.running == 1
    del abandoned
    gc.collect()
    assert backend.running == 0


def test_a_generator_that_the_garbage_collector_finds_in_the_loops_own_thread_is_ended_too(stretto, backend):
    abandoned = words(stretto)
    next(abandoned)
    held = [abandoned]
    del abandoned

    async def drop():
        held.clear()
        await turns(TURNS)
        return backend.running

    assert stretto._loop.call(drop) == 0


def test_a_generator_that_outlives_its_client_ends_without_a_word(backend):
    with Stretto(backend) as client:
        abandoned = words(client)
        next(abandoned)
    assert backend.running == 0
    abandoned.close()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, KeyError])
def test_what_is_raised_in_the_loop_over_a_synchronous_stream_comes_out_as_it_is(stretto, backend, raised):
    with pytest.raises(raised) as caught, stretto.stream("endless", strategy="direct") as events:
        for _ in events.text():
            raise raised("mine")
    assert caught.value.args == ("mine",)
    assert backend.running == 0


@pytest.mark.parametrize("call", ["stream", "ask"])
def test_ctrl_c_while_waiting_for_an_answer_is_a_keyboard_interrupt(stretto, backend, call):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, it may be ignored
    backend.on_hang = lambda: os.kill(os.getpid(), signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            if call == "ask":
                stretto.ask("endless", strategy="direct")
            with stretto.stream("endless", strategy="direct") as events:
                list(events)
    finally:
        signal.signal(signal.SIGINT, before)


def test_break_leaves_a_synchronous_stream(stretto, backend):
    with stretto.stream("endless", strategy="direct") as events:
        for _ in events.text():
            break
    assert backend.running == 0


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


def test_a_synchronous_stream_gives_events_text_the_rest_and_the_answer():
    with Stretto(ScriptedBackend(ENDLESS)) as client:
        with client.stream("Why?", strategy="direct") as events:
            with pytest.raises(StrettoError, match="to its end"):
                _ = events.answer
            listed = list(events)
            assert isinstance(listed[-1], AnswerFinished)
            assert events.answer == listed[-1].answer
        with client.stream("Why?", strategy="direct") as events:
            assert list(events.text()) == ["A", " straight", " answer."]
        with client.stream("Why?", strategy="direct") as events:
            next(events)
            assert events.rest().text == events.answer.text == "A straight answer."


def test_closing_a_client_ends_what_other_threads_are_asking():
    hangs, said = threading.Event(), []
    client = Stretto(Endless(hangs.set))

    def ask():
        try:
            client.ask("endless", strategy="direct")
        except StrettoError as error:
            said.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    assert hangs.wait(patience(60))
    client.close()
    thread.join(patience(60))
    assert said == ["This client was closed while it was answering."]


def test_threads_that_ask_first_at_the_same_time_share_one_loop():
    before = threading.active_count()
    client, begin, answers = Stretto(ScriptedBackend(ENDLESS)), threading.Barrier(8), []

    def ask():
        begin.wait(patience(60))
        answers.append(client.ask("Why?", strategy="direct").text)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(60))
    assert answers == ["A straight answer."] * 8
    assert threading.active_count() == before + 1
    client.close()
    assert threading.active_count() == before


async def test_an_asynchronous_generator_left_by_break_does_not_cancel_its_caller(backend):
    async with AsyncStretto(backend) as client:
        async for _ in async_words(client):
            break
        gc.collect()
        await turns(TURNS)  # the event loop finalizes the generator meanwhile, in a separate task
        assert backend.running == 0
        assert (await client.ask("Why?", strategy="direct")).text == "A straight answer."


async def test_an_asynchronous_generator_closed_by_another_task_cancels_neither(backend):
    async with AsyncStretto(backend) as client:
        generator = async_words(client)
        assert await anext(generator) == "One"
        await asyncio.create_task(generator.aclose())
        assert backend.running == 0
        await turns(TURNS)


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


async def test_a_stream_that_nobody_closes_is_ended_by_closing_its_client(backend):
    client = AsyncStretto(backend)
    opened = client.stream("endless", strategy="direct")
    events = await opened.__aenter__()
    assert await anext(events.text()) == "One"
    before = backend.running
    await client.aclose()
    assert (before, backend.running) == (1, 0)
    with pytest.raises(StrettoError, match="This client was closed while it was answering"):
        await events.rest()
    await opened.__aexit__(None, None, None)


async def test_a_stream_of_another_threads_loop_is_ended_by_closing_the_client():
    hangs, said = threading.Event(), []
    backend = Endless(hangs.set)
    client = AsyncStretto(backend)

    def elsewhere():
        try:
            asyncio.run(client.ask("endless", strategy="direct"))
        except StrettoError as error:
            said.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert await anyio.to_thread.run_sync(hangs.wait, 60)
    await client.aclose()
    assert backend.running == 0
    await anyio.to_thread.run_sync(thread.join, 60)
    assert said == ["This client was closed while it was answering."]


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_task_that_is_cancelled_again_and_again_ends_only_when_nothing_of_its_answer_runs(times):
    backend = SlowToLeave()
    async with AsyncStretto(backend) as client:
        asking = asyncio.create_task(client.ask("endless", strategy="direct"))
        for _ in range(TURNS):
            await anyio.lowlevel.checkpoint()
        assert backend.running == 1
        for _ in range(times):
            asking.cancel()
            await turns(3)
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert backend.running == 0


@pytest.mark.leaping
async def test_a_timeout_around_a_stream_is_that_timeout_and_leaves_nothing(backend):
    async with AsyncStretto(backend) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.ask("endless", strategy="direct")
        with anyio.move_on_after(0.05) as scope:
            await client.ask("endless", strategy="direct")
        assert scope.cancelled_caught
        assert backend.running == 0


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


def test_who_reads_on_after_leaving_a_stream_is_told_so(stretto):
    with stretto.stream("endless", strategy="direct") as events:
        assert next(events.text()) == "One"
    for read in (events.rest, events.text().__next__, events.__next__):
        with pytest.raises(StrettoError, match=r"left before its end, .* Read it inside its with block"):
            read()
    with stretto.stream("Why?", strategy="direct") as whole:
        whole.rest()
    assert list(whole) == []


async def test_who_reads_on_after_leaving_an_asynchronous_stream_is_told_so(backend):
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream("endless", strategy="direct") as events:
            assert await anext(events.text()) == "One"
        with pytest.raises(StrettoError, match="left before its end"):
            await events.rest()


def test_a_stream_that_is_entered_and_never_left_is_ended_when_nobody_holds_it(stretto, backend):
    context = stretto.stream("endless", strategy="direct")
    assert next(context.__enter__().text()) == "One"
    with pytest.warns(ResourceWarning, match="dropped before its end"):
        del context
    gc.collect()
    assert backend.running == 0


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


@pytest.mark.parametrize("client", ["Stretto", "AsyncStretto"])
def test_the_deadline_holds_while_the_library_is_imported(client):
    code = f"""
import sys, threading, anyio
from stretto import {client}, DeadlineExceededError
from stretto.testing import ScriptedBackend
go_on = threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == "stretto.strategies.assembly":
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
