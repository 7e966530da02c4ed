"""However a stream is left, what ran is cancelled, the caller is not, and the client answers the next question."""

import asyncio
import gc
import os
import signal
import threading
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
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
    before = set(threading.enumerate())
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
    assert len(set(threading.enumerate()) - before) == 1
    client.close()
    assert set(threading.enumerate()) <= before  # those of earlier tests may end meanwhile


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
