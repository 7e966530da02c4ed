"""Backends of one process whose files and options agree hold one model in memory."""

import asyncio
import gc
import os
import threading
import weakref

import anyio
import anyio.from_thread
import pytest
from patience import patience
from saved_models import collect, opened, prompt, save, text_of

from stretto import AsyncStretto, BackendError, Stretto
from stretto.backends.local.backend import LocalBackend
from stretto.backends.local.loading import LoadingOptions
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

ASKED = {"strategy": "direct", "max_tokens": 8, "temperature": 0, "seed": 1}


def engine_of(backend):
    return backend._loader.engine


def written_otherwise(folder):
    return f"local:{os.path.relpath(folder)}"


def is_freed(engine):
    return not vars(engine.model.forward)


async def test_clients_of_threads_and_loops_share_a_model_until_the_last_is_closed(folder):
    with Stretto(f"local:{folder}") as first:
        text = await anyio.to_thread.run_sync(lambda: first.ask("Why?", **ASKED).text)
        engine = engine_of(first.backends["main"])
        async with AsyncStretto(written_otherwise(folder)) as second:
            assert (await second.ask("Why?", **ASKED)).text == text
            assert engine_of(second.backends["main"]) is engine

            def ask_in_a_loop_of_its_own():
                async def ask():
                    async with AsyncStretto(f"local:{folder}") as third:
                        assert (await third.ask("Why?", **ASKED)).text == text
                        assert engine_of(third.backends["main"]) is engine

                asyncio.run(ask())

            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, ask_in_a_loop_of_its_own)
                group.start_soon(anyio.to_thread.run_sync, ask_in_a_loop_of_its_own)
                answers = [await second.ask("Why?", **ASKED) for _ in range(3)]
            assert {each.text for each in answers} == {text}
            assert not is_freed(engine)
            await anyio.to_thread.run_sync(first.close)
            assert (await second.ask("Why?", **ASKED)).text == text
        assert is_freed(engine)


@pytest.mark.thorough
async def test_other_options_and_other_files_are_other_models(folder, tmp_path):
    copy = save(tmp_path / "copy")
    async with (
        opened(copy) as first,
        opened(copy) as same,
        opened(copy, draft_history_tokens=9) as other,
        opened(copy) as waiting,
    ):
        for backend in (first, same, other):
            await backend.count_tokens(prompt("one"))
        assert engine_of(first) is engine_of(same) is not engine_of(other)
        os.utime(copy / "model.safetensors", ns=(1, 1))
        await waiting.count_tokens(prompt("one"))
        assert engine_of(waiting) is engine_of(first)  # no file is looked at while a request waits
        async with opened(copy) as later:
            await later.count_tokens(prompt("one"))
            assert engine_of(later) is not engine_of(first)


async def test_closing_a_backend_ends_its_own_answers_only(tmp_path):
    endless = save(tmp_path, end=None)
    async with opened(endless) as first, opened(endless) as second:
        long = GenerationOptions(max_tokens=400, temperature=0)
        async with first.stream(prompt("one"), long) as leaving, second.stream(prompt("one"), long) as staying:
            await anext(leaving)
            await first.aclose()
            with pytest.raises(BackendError, match="was closed while it generated"):
                [chunk async for chunk in leaving]
            assert [chunk async for chunk in staying][-1].usage.completion_tokens == 400
        with pytest.raises(BackendError, match="is closed"):
            await collect(first)
        assert text_of(await collect(second, max_tokens=4))


async def test_closing_a_backend_that_waits_leaves_the_loading_to_the_others(folder, monkeypatch):
    loading, load, real = threading.Event(), threading.Event(), LoadingOptions._load

    def slow(self, *given):
        loading.set()
        assert load.wait(patience(60))
        return real(self, *given)

    monkeypatch.setattr(LoadingOptions, "_load", slow)
    first, second = LocalBackend(f"local:{folder}"), LocalBackend(f"local:{folder}")
    counting = [asyncio.create_task(each.count_tokens(prompt("one"))) for each in (first, second)]
    assert await anyio.to_thread.run_sync(loading.wait, 60)
    with anyio.fail_after(patience(60)):
        await first.aclose()
        with pytest.raises(BackendError, match="is closed"):
            await counting[0]
    load.set()
    assert await counting[1] > 0
    engine = engine_of(second)
    await second.aclose()
    assert is_freed(engine)


async def test_a_backend_that_was_forgotten_keeps_no_model(folder):
    forgotten, kept = LocalBackend(f"local:{folder}"), LocalBackend(f"local:{folder}")
    for backend in (forgotten, kept):
        await backend.count_tokens(prompt("one"))
    engine = engine_of(kept)
    assert engine_of(forgotten) is engine
    watched = weakref.ref(forgotten)
    del forgotten, backend
    gc.collect()
    assert watched() is None
    assert text_of(await collect(kept, max_tokens=4))
    await kept.aclose()
    assert is_freed(engine)
