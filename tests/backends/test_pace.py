import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from talking import KEY, hear

from stretto.backends.openai import OpenAIBackend
from stretto.backends.pace import Pace, RateLimits, seconds_until
from stretto.errors import RateLimitedError
from stretto.testing.server import Fault, ScriptedServer

pytestmark = pytest.mark.anyio

HOUR = {
    "x-ratelimit-limit-requests": "1",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "1h0m0s",
}


@asynccontextmanager
async def talk(max_in_flight=4, **settings):
    async with ScriptedServer("one two three", **settings) as server:
        inner = OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY)
        backend = Pace(inner, max_in_flight=max_in_flight)
        yield backend, server
        await backend.aclose()


@pytest.mark.parametrize(
    ("told", "seconds"), [("6m0s", 360), ("120ms", 0.12), ("1h2m3.5s", 3723.5), ("2", 2), ("soon", None), ("", None)]
)
def test_reset_times_are_read_in_every_form(told, seconds):
    assert seconds_until(told) == seconds


def test_a_moment_is_read_as_the_seconds_until_it():
    moment = datetime.now(UTC) + timedelta(seconds=100)
    assert 90 < seconds_until(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) <= 100
    assert 90 < seconds_until(str(time.time() + 100)) <= 100


def test_calls_on_their_way_count_against_what_is_left():
    limits = RateLimits()
    limits.read({"x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "60s"})
    assert limits.wait_s({"requests": 1}) == 0
    limits.send({"requests": 1})
    assert limits.wait_s({"requests": 1}) == 0
    limits.send({"requests": 1})
    assert limits.wait_s({"requests": 1}) > 50


def test_a_limit_of_known_size_refills_steadily():
    limits = RateLimits()
    limits.read(
        {
            "anthropic-ratelimit-input-tokens-limit": "6000",
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": (datetime.now(UTC) + timedelta(seconds=60)).isoformat(),
        }
    )
    assert 8 < limits.wait_s({"input-tokens": 1000}) < 12
    assert 50 < limits.wait_s({"input-tokens": 100_000}) <= 60


async def test_a_call_that_the_limits_do_not_admit_before_the_deadline_is_not_sent():
    async with talk(headers=HOUR) as (backend, server):
        await hear(backend)
        with anyio.fail_after(60), pytest.raises(RateLimitedError, match="passes the deadline") as caught:
            await hear(backend)
        assert caught.value.retry_after_s > 3000
        assert len(server.requests) == 1


async def test_a_call_waits_until_the_limits_admit_it():
    soon = HOUR | {"x-ratelimit-reset-requests": "30ms"}
    async with talk(headers=soon) as (backend, server):
        for _ in range(3):
            assert (await hear(backend)).text == "one two three"
        assert len(server.requests) == 3


async def test_after_a_429_nobody_calls_before_the_server_wants_it():
    async with talk() as (backend, server):
        server.script(Fault("status", status=429, headers={"retry-after": "3600"}))
        with pytest.raises(RateLimitedError):
            await hear(backend)
        with anyio.fail_after(60), pytest.raises(RateLimitedError, match="passes the deadline"):
            await hear(backend)
        assert len(server.requests) == 1


async def test_no_more_calls_are_under_way_than_allowed():
    async with talk(max_in_flight=2) as (backend, server):
        server.script(*[Fault("stall", after=1)] * 2)
        assert backend.capabilities.parallel_slots == 2
        async with anyio.create_task_group() as callers:
            for _ in range(5):
                callers.start_soon(hear, backend)
            await server.wait_until(lambda server: server.active_streams == 2)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 2
            callers.cancel_scope.cancel()
        assert (await hear(backend)).text == "one two three"  # what was cancelled gave its place back


async def test_a_failed_call_gives_its_place_back():
    async with talk(max_in_flight=1) as (backend, server):
        for _ in range(3):
            server.script(Fault("reset"))
            with pytest.raises(Exception, match="cannot be reached"):
                await hear(backend)
        assert (await hear(backend)).text == "one two three"
