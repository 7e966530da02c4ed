"""Where a client ends: after `aclose`, in another event loop, with a stream that nobody holds any more."""

import asyncio
import gc
import subprocess
import sys

import pytest

from stretto import AsyncStretto, Stretto, StrettoError
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio


def backend():
    return ScriptedBackend({"": Reply("one two three", chunk_delay_s=0.001)})


async def test_a_closed_client_answers_no_more_also_on_the_callers_backend():
    own = backend()
    stretto = AsyncStretto(own)
    assert (await stretto.ask("Why?")).text == "one two three"
    await stretto.aclose()
    for asking in (stretto.ask, stretto.route):
        with pytest.raises(StrettoError, match=r"This AsyncStretto is closed\. Make a new one"):
            await asking("Why?")
    with pytest.raises(StrettoError, match="is closed"):
        async with stretto.stream("Why?"):
            pass
    assert len(own.calls) == 1
    assert not own.closed


def test_closing_the_synchronous_client_closes_the_one_behind_it():
    stretto = Stretto(backend())
    stretto.close()
    with pytest.raises(StrettoError, match="closed"):
        asyncio.run(stretto.asynchronous.ask("Why?"))


def test_another_event_loop_is_refused_in_one_sentence():
    coroutine = AsyncStretto(backend()).ask("Why?")
    with pytest.raises(StrettoError, match=r"AsyncStretto runs on asyncio only.*trio"):
        coroutine.send(None)  # what any other event loop does first


async def test_an_asynchronous_stream_that_is_dropped_is_ended_and_warned_of():
    own = backend()
    async with AsyncStretto(own) as stretto:
        stream = await stretto.stream("Why?").__aenter__()
        assert await anext(stream)
        cycle = [stream]  # so that it is collected where the warning is expected
        cycle.append(cycle)
        writing = next(iter(stretto._writings))
        del stream, cycle
        with pytest.warns(ResourceWarning, match="dropped before its end"):
            gc.collect()
        await writing._joined()
    assert own.running == 0


async def test_a_stream_that_was_read_to_its_end_is_dropped_without_a_warning(recwarn):
    async with AsyncStretto(backend()) as stretto:
        stream = await stretto.stream("Why?").__aenter__()
        assert (await stream.rest()).text == "one two three"
        del stream
        gc.collect()
    assert not [each for each in recwarn if each.category is ResourceWarning]


def test_a_synchronous_stream_that_is_dropped_is_ended_and_warned_of():
    unending = ScriptedBackend({"": Reply("one two three", chunk_delay_s=3600)})
    with Stretto(unending) as stretto:
        opened = stretto.stream("Why?")
        next(opened.__enter__())
        cycle = [opened]
        cycle.append(cycle)
        del opened, cycle
        with pytest.warns(ResourceWarning, match="dropped before its end"):
            gc.collect()
        assert unending.running == 0


def test_python_m_stretto_is_the_command_line():
    said = subprocess.run([sys.executable, "-m", "stretto", "--help"], capture_output=True, text=True, check=True)
    assert "ask" in said.stdout
    assert "serve" in said.stdout


async def test_a_script_may_answer_by_a_function_for_a_pattern():
    scripted = ScriptedBackend({"Why": lambda prompt: f"{len(prompt.messages)} message", "": [lambda _: "a", "b"]})
    async with AsyncStretto(scripted) as stretto:
        assert (await stretto.ask("Why?")).text == "1 message"
        assert [(await stretto.ask("How?")).text for _ in range(2)] == ["a", "b"]
