from contextlib import asynccontextmanager

import anyio
import pytest
from talking import KEY, asking, hear, settled

from stretto.backends.allowance import allowed
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilience.hedge import Hedge
from stretto.backends.resilience.resilient import Resilience
from stretto.strategies.runtime.ledger import Ledger
from stretto.testing.server import Fault, ScriptedServer
from stretto.values.budget import Budget
from stretto.values.errors import ServerFailedError
from stretto.values.request import GenerationOptions

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]


@asynccontextmanager
async def talk(**how):
    async with ScriptedServer("one two three") as server:
        backend = Hedge(OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY), **how)
        yield backend, server
        await backend.aclose()


async def test_a_late_call_is_sent_again_and_the_loser_closed():
    async with talk(after_s=0.01, share=1.0) as (backend, server):
        server.script(Fault("stall"), None)
        heard = await hear(backend)
        assert heard.text == "one two three"
        assert (heard.usage.calls, heard.usage.hedges) == (2, 1)
        await server.wait_until(lambda server: all(request.ended_s for request in server.requests))
        assert len(server.requests) == 2


async def test_the_second_call_may_lose_too():
    async with talk(after_s=0.01, share=1.0) as (backend, server):
        server.script(None, Fault("stall"))
        server._first_s = 0.2
        heard = await hear(backend)
        assert heard.text == "one two three"
        await server.wait_until(lambda server: all(request.ended_s for request in server.requests))


async def test_a_quick_call_is_not_sent_again():
    async with talk(after_s=60, share=1.0) as (backend, server):
        heard = await hear(backend)
        assert (len(server.requests), heard.usage.hedges) == (1, 0)


async def test_the_budget_bounds_the_extra_calls():
    async with talk(after_s=0.0, share=0.25) as (backend, server):
        usage = [(await hear(backend)).usage for _ in range(8)]
        assert sum(use.hedges for use in usage) <= 2
        assert len(server.requests) <= 10


async def test_nothing_is_hedged_before_enough_is_known():
    async with talk(share=1.0) as (backend, server):
        for _ in range(20):
            await hear(backend)
        assert len(server.requests) == 20
        server.script(Fault("stall"), None)
        assert (await hear(backend)).usage.hedges == 1


async def test_when_both_fail_the_first_failure_is_told_with_what_both_cost():
    async with talk(after_s=0.0, share=1.0) as (backend, server):
        server.script(Fault("status", status=500), Fault("status", status=500))
        with pytest.raises(ServerFailedError) as caught:
            await hear(backend)
        assert caught.value.usage.calls == len(server.requests)


async def test_cancelling_a_race_ends_both_calls():
    async with talk(after_s=0.01, share=1.0) as (backend, server):
        server.script(Fault("stall"), Fault("stall"))
        before = await settled()
        async with anyio.create_task_group() as callers:
            callers.start_soon(hear, backend)
            await server.wait_until(lambda server: [r.outcome for r in server.requests] == ["stall"] * 2)
            callers.cancel_scope.cancel()
        await server.wait_until(lambda server: server.open_connections == 0)
        assert (await settled()).tasks == before.tasks


async def test_the_whole_layer_works_around_a_hedged_call():
    policy = Resilience(hedge=True, hedge_after_s=0.01, hedge_share=1.0, stall_s=20)
    async with ScriptedServer("one two three") as server:
        backend = open_backend("openai:some-model", base_url=server.openai_url, api_key=KEY, resilience=policy)
        server.script(Fault("stall"), None)
        async with backend.stream(asking(), GenerationOptions()) as chunks:
            text = "".join([chunk.text async for chunk in chunks])
        assert text == "one two three"
        await backend.aclose()
        await server.wait_until(lambda server: server.open_connections == 0)


async def test_a_hedge_beyond_the_budget_of_calls_is_not_sent():
    ledger = Ledger(Budget(max_calls=1))
    _, reservation = await ledger.reserve(0, None)
    async with talk(after_s=0.0, share=1.0) as (backend, server):
        with allowed(reservation):
            assert (await hear(backend)).usage.hedges == 0
        assert len(server.requests) == 1
