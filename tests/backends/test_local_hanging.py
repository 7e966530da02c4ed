"""Deadlines, scopes and `wait_for` hold while a drafter hangs in the engine's thread."""

import asyncio
import threading

import anyio
import pytest
from saved_models import collect, opened

from stretto import AsyncStretto
from stretto.local_engine.drafting import catalogue
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.values.errors import DeadlineExceededError

pytestmark = pytest.mark.anyio


@pytest.fixture
def hanging(monkeypatch):
    """A decoding method that hangs, and the event that lets it go on; after a minute it goes on by itself."""
    hangs, release = threading.Event(), threading.Event()

    class Hanging(Autoregressive):
        name = "hanging"

        def propose(self, context, rows):
            hangs.set()
            release.wait()
            return super().propose(context, rows)

    monkeypatch.setitem(catalogue.DRAFTERS, "hanging", lambda _: Hanging())
    monkeypatch.setattr("stretto.backends.local.backend._LET_GO_S", 0.05)  # the engine does not let go before its time
    catalogue.all_drafters.cache_clear()
    rescue = threading.Timer(60, release.set)
    rescue.start()
    yield hangs, release
    rescue.cancel()
    release.set()
    catalogue.all_drafters.cache_clear()


async def test_a_scope_around_a_call_holds(folder, hanging):
    hangs, release = hanging
    async with opened(folder, decoding="hanging") as backend:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(collect, backend)
                await anyio.to_thread.run_sync(hangs.wait)
                scope.cancel()
        assert scope.cancelled_caught
        assert not release.is_set()
        release.set()


async def test_wait_for_holds(folder, hanging):
    hangs, release = hanging
    async with opened(folder, decoding="hanging") as backend:
        call = asyncio.ensure_future(collect(backend))
        await anyio.to_thread.run_sync(hangs.wait)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.01)
        assert not release.is_set()
        release.set()


@pytest.mark.thorough
async def test_the_deadline_of_an_answer_holds(folder, hanging):
    _, release = hanging
    async with opened(folder, decoding="hanging") as backend, AsyncStretto(backend) as stretto:
        await collect(backend, decoding="autoregressive")  # the model is loaded before the deadline begins
        with pytest.raises(DeadlineExceededError):
            await stretto.ask("Why?", strategy="direct", deadline_s=0.5)
        assert not release.is_set()
        release.set()


async def test_closing_the_backend_can_be_left(folder, hanging):
    hangs, release = hanging
    async with opened(folder, decoding="hanging") as backend:
        call = asyncio.ensure_future(collect(backend))
        await anyio.to_thread.run_sync(hangs.wait)
        with anyio.move_on_after(0.01) as scope:
            await backend.aclose()
        assert scope.cancelled_caught
        assert not release.is_set()
        release.set()
        with pytest.raises(Exception, match="was closed while it generated"):
            await call
