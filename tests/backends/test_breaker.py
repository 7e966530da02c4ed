from contextlib import asynccontextmanager

import anyio
import pytest
from talking import KEY, asking, hear

from stretto import AsyncStretto
from stretto.backends.breaker import Breaker, Circuit
from stretto.backends.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilient import Endpoints, Resilience
from stretto.errors import BackendError, BreakerOpenError, StreamBrokenError
from stretto.request import GenerationOptions
from stretto.settings import Settings
from stretto.testing.server import Fault, ScriptedServer

pytestmark = pytest.mark.anyio


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@asynccontextmanager
async def talk(clock=None, over_s=0):
    async with ScriptedServer("one two three") as server:
        inner = OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY)
        backend = Breaker(inner, Circuit(faults=2, over_s=over_s, rest_s=10, clock=clock or Clock()))
        yield backend, server
        await backend.aclose()


async def fail(backend, server, *faults):
    for fault in faults:
        server.script(fault)
        with pytest.raises(BackendError):
            await hear(backend)


async def test_faults_in_a_row_open_it_and_a_whole_answer_closes_it_again():
    clock = Clock()
    async with talk(clock) as (backend, server):
        await fail(backend, server, Fault("status", status=500), Fault("cut", after=1))
        with pytest.raises(BreakerOpenError, match="in 10 s") as caught:
            await hear(backend)
        assert caught.value.retry_after_s == 10
        assert not caught.value.transient
        clock.now = 11
        assert (await hear(backend)).text == "one two three"
        await fail(backend, server, Fault("status", status=500))
        assert (await hear(backend)).text == "one two three"


async def test_faults_of_one_short_disturbance_do_not_open_it():
    clock = Clock()
    async with talk(clock, over_s=5) as (backend, server):
        await fail(backend, server, *[Fault("reset")] * 4)
        assert (await hear(backend)).text == "one two three"
        await fail(backend, server, Fault("reset"))
        clock.now = 6
        await fail(backend, server, Fault("reset"))
        with pytest.raises(BreakerOpenError):
            await hear(backend)


async def test_one_call_tries_and_its_failure_opens_it_at_once():
    clock = Clock()
    async with talk(clock) as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("reset"))
        clock.now = 11
        await fail(backend, server, Fault("reset"))
        with pytest.raises(BreakerOpenError):
            await hear(backend)
        assert len(server.requests) == 3


async def test_only_one_call_tries_at_a_time_and_a_cancelled_one_makes_room():
    clock = Clock()
    async with talk(clock) as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("reset"))
        clock.now = 11
        server.script(Fault("stall"))
        async with anyio.create_task_group() as callers:
            callers.start_soon(hear, backend)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            with pytest.raises(BreakerOpenError, match="tries it now"):
                await hear(backend)
            callers.cancel_scope.cancel()
        assert (await hear(backend)).text == "one two three"


@pytest.mark.parametrize("status", [400, 401, 404, 429])
async def test_what_is_not_the_endpoints_fault_does_not_count(status):
    async with talk() as (backend, server):
        await fail(backend, server, *[Fault("status", status=status)] * 4)
        assert (await hear(backend)).text == "one two three"


async def test_a_fault_counts_even_if_the_reader_deals_with_it_inside():
    async with talk() as (backend, server):
        for _ in range(2):
            server.script(Fault("reset", after=1))
            async with backend.stream(asking(), GenerationOptions()) as chunks:
                with pytest.raises(StreamBrokenError):
                    [chunk async for chunk in chunks]
        with pytest.raises(BreakerOpenError):
            await hear(backend)


async def test_a_whole_answer_between_faults_starts_the_count_anew():
    async with talk() as (backend, server):
        for _ in range(3):
            await fail(backend, server, Fault("status", status=500))
            await hear(backend)
        assert len(server.requests) == 6


async def test_two_models_of_one_client_on_one_server_share_its_breaker_and_each_has_its_own_limits():
    async with (
        ScriptedServer("one two three") as server,
        AsyncStretto(
            "openai:large",
            base_url=server.openai_url,
            api_key=KEY,
            settings=Settings(retries=0),
            small="openai:small",
            roles={"claude": "anthropic:claude-haiku-4-5"},
        ) as stretto,
    ):
        main, small, claude = (stretto.backends[role] for role in ("main", "small", "claude"))
        assert main.circuit is small.circuit
        assert main.circuit is not claude.circuit
        assert (await hear(small)).text == "one two three"
        assert server.requests[-1].body["model"] == "small"


async def test_models_on_two_servers_do_not_share_a_breaker_and_two_clients_do_not_either():
    policy = Resilience(attempts=1, breaker_faults=1, breaker_over_s=0)
    async with ScriptedServer("one two three") as server, ScriptedServer("one two three") as other:
        shared = Endpoints()
        first = open_backend(
            "openai:some", base_url=server.openai_url, api_key=KEY, resilience=policy, endpoints=shared
        )
        sister = open_backend(
            "openai:sister", base_url=server.openai_url, api_key=KEY, resilience=policy, endpoints=shared
        )
        stranger = open_backend(
            "openai:some", base_url=other.openai_url, api_key=KEY, resilience=policy, endpoints=shared
        )
        of_another_client = open_backend("openai:some", base_url=server.openai_url, api_key=KEY, resilience=policy)
        await fail(first, server, Fault("status", status=500))
        with pytest.raises(BreakerOpenError):
            await hear(sister)
        assert (await hear(stranger)).text == "one two three"
        assert (await hear(of_another_client)).text == "one two three"
        for backend in (first, sister, stranger, of_another_client):
            await backend.aclose()
