from contextlib import asynccontextmanager

import anyio
import pytest
from patience import patience
from talking import KEY, asking, hear

from stretto import AsyncStretto
from stretto.backends.allowance import Caller, allowed
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilience.breaker import Breaker, Circuit
from stretto.backends.resilience.resilient import Endpoints, Resilience
from stretto.config.settings import Settings
from stretto.strategies.runtime.ledger import Ledger, Reservation
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.budget import Budget
from stretto.values.errors import BackendError, BreakerOpenError, ServerFailedError, StreamBrokenError
from stretto.values.request import GenerationOptions

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


async def test_while_one_call_tries_the_others_wait_and_go_on_when_the_endpoint_answers():
    clock = Clock()
    async with talk(clock) as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("reset"))
        clock.now = 11
        heard = []

        async def listen():
            heard.append((await hear(backend)).text)

        server.script(Fault("stall", after=0))  # the trial hangs until it is cancelled
        async with anyio.create_task_group() as callers, anyio.create_task_group() as trying:
            trying.start_soon(hear, backend)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            for _ in range(19):
                callers.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 3
            trying.cancel_scope.cancel()
        assert heard == ["one two three"] * 19


async def test_a_trial_that_fails_refuses_those_that_waited_for_it():
    clock = Clock()
    async with talk(clock) as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("reset"))
        clock.now = 11
        refused = []

        async def listen():
            with pytest.raises(BackendError) as caught:
                await hear(backend)
            refused.append(type(caught.value))

        server.script(Fault("status", status=500), *[Fault("reset")] * 9)
        async with anyio.create_task_group() as callers:
            for _ in range(10):
                callers.start_soon(listen)
        assert sorted(refused, key=str) == sorted([ServerFailedError, *[BreakerOpenError] * 9], key=str)
        assert len(server.requests) == 3


async def test_the_wait_for_a_trial_is_bounded():
    clock = Clock()
    async with ScriptedServer("one two three") as server:
        inner = OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY)
        backend = Breaker(inner, Circuit(faults=1, over_s=0, rest_s=0.05, clock=clock))
        await fail(backend, server, Fault("reset"))
        clock.now = 1
        server.script(Fault("stall"))
        async with anyio.create_task_group() as callers:
            callers.start_soon(hear, backend)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            with anyio.fail_after(patience(60)), pytest.raises(BreakerOpenError, match="tries it now"):
                await hear(backend)
            callers.cancel_scope.cancel()
        await backend.aclose()


async def test_a_refusal_names_the_last_fault():
    async with talk() as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("status", status=500, message="disk full"))
        with pytest.raises(BreakerOpenError, match=r"failed 2 times in a row, the last with HTTP 500\. It"):
            await hear(backend)


async def test_a_refusal_names_the_last_fault_that_has_no_status():
    async with talk() as (backend, server):
        await fail(backend, server, Fault("reset"), Fault("reset"))
        with pytest.raises(BreakerOpenError, match=r"the last with a connection that could not be made"):
            await hear(backend)


async def ask_as(answer, part, backend):
    with allowed(Reservation(Ledger(Budget())), Caller(answer, part)):
        return await hear(backend)


async def test_the_faults_of_one_part_of_an_answer_leave_another_part_of_it_one_call():
    async with talk() as (backend, server):
        server.script(*[Fault("status", status=502)] * 3)
        for _ in range(2):
            with pytest.raises(ServerFailedError):
                await ask_as(1, "outline", backend)
        with pytest.raises(BreakerOpenError):
            await ask_as(1, "outline", backend)
        with pytest.raises(BreakerOpenError):
            await ask_as(2, "outline", backend)
        with pytest.raises(ServerFailedError):
            await ask_as(1, "direct", backend)
        with pytest.raises(BreakerOpenError):
            await ask_as(1, "direct", backend)


async def test_an_outline_that_fails_for_good_does_not_cost_the_straight_answer():
    def reply(received):
        if "Write only the outline" in received.prompt:
            return HttpReply("", fault=Fault("status", status=500, message="no outlines here"))
        return "A straight answer."

    policy = Resilience(attempts=4, first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=3, breaker_over_s=0)
    async with ScriptedServer(reply) as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY, resilience=policy)
        async with AsyncStretto(backend) as stretto:
            answer = await stretto.ask(
                "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
            )
    assert answer.text == "A straight answer."
    assert [(warning.code, "no outlines here" in warning) for warning in answer.warnings] == [("strategy", True)]


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
            settings=Settings(attempts=1),
            roles={"small": "openai:small", "claude": "anthropic:claude-haiku-4-5"},
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
