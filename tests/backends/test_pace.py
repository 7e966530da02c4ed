import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from talking import KEY, hear

from stretto.backends.base import Chunk
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.providers.transport.headers import LONGEST_S, seconds_until
from stretto.backends.resilience.rate_limiter import RateLimiter, RateLimits
from stretto.backends.resilience.rate_limits import BELIEVED_S, PendingCall
from stretto.testing.server import Fault, ScriptedServer
from stretto.values.errors import ConnectionFailedError, RateLimitedError

pytestmark = pytest.mark.anyio

HOUR = {
    "x-ratelimit-limit-requests": "1",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "1h0m0s",
}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class ShiftedClock:
    """Goes on by itself, and can be put forward."""

    shift = 0.0

    def __call__(self):
        return time.monotonic() + self.shift


@asynccontextmanager
async def talk(concurrent_calls=4, limits=None, **settings):
    async with ScriptedServer("one two three", **settings) as server:
        inner = OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY)
        backend = RateLimiter(inner, concurrent_calls=concurrent_calls, limits=limits)
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
    async with talk(concurrent_calls=2) as (backend, server):
        server.script(*[Fault("stall", after=1)] * 2)
        assert backend.capabilities.concurrent_calls == 2
        async with anyio.create_task_group() as callers:
            for _ in range(5):
                callers.start_soon(hear, backend)
            await server.wait_until(lambda server: server.active_streams == 2)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 2
            callers.cancel_scope.cancel()
        assert (await hear(backend)).text == "one two three"  # what was cancelled gave its place back


async def test_a_failed_call_gives_its_place_back():
    async with talk(concurrent_calls=1) as (backend, server):
        for _ in range(3):
            server.script(Fault("reset"))
            with pytest.raises(Exception, match="cannot be reached"):
                await hear(backend)
        assert (await hear(backend)).text == "one two three"


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-5", "1e999", "1e999s", "9" * 5000 + "h", "", "soon", "-1s"])
@pytest.mark.parametrize("field", ["limit", "remaining", "reset"])
def test_a_number_that_cannot_be_true_is_not_believed(field, value):
    told = {"limit": "60", "remaining": "0", "reset": "1h"} | {field: value}
    limits = RateLimits()
    limits.read({f"x-ratelimit-{name}-requests": each for name, each in told.items()})
    assert 0 <= limits.wait_s({"requests": 1}) <= LONGEST_S
    limits.send({"requests": 1})
    assert 0 <= limits.wait_s({"requests": 1}) <= LONGEST_S


@pytest.mark.parametrize("reset", ["999999999", "9999-12-31T23:59:59Z", "100000d", "1e18"])
@pytest.mark.parametrize("limit", [None, "1", "60", "1e308"])
async def test_however_far_a_reset_lies_one_call_finds_out_whether_it_still_holds(reset, limit):
    told = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}
    if limit is not None:
        told["x-ratelimit-limit-requests"] = limit
    clock = Clock()
    async with talk(limits=RateLimits(clock), headers=told) as (backend, server):
        await hear(backend)
        clock.now = BELIEVED_S - 1
        if limit != "1e308":  # which refills a call in a moment
            with anyio.fail_after(60), pytest.raises(RateLimitedError):
                await hear(backend)
        clock.now = BELIEVED_S + 1
        server._headers = {}
        for _ in range(3):
            assert (await hear(backend)).text == "one two three"
            clock.now += 1


@pytest.mark.parametrize("asked", ["31536000", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_however_long_a_server_asks_to_wait_one_call_finds_out_whether_it_still_wants_that(asked):
    clock = Clock()
    async with talk(limits=RateLimits(clock)) as (backend, server):
        server.script(*[Fault("status", status=429, headers={"retry-after": asked})] * 2)
        with pytest.raises(RateLimitedError):
            await hear(backend)
        for later in (BELIEVED_S - 1, BELIEVED_S + 1, 2 * BELIEVED_S):  # refused, tried in vain, refused
            clock.now = later
            with anyio.fail_after(60), pytest.raises(RateLimitedError):
                await hear(backend)
        assert len(server.requests) == 2
        clock.now = 2 * BELIEVED_S + 2
        for _ in range(3):
            assert (await hear(backend)).text == "one two three"
            clock.now += 1


@pytest.mark.thorough
async def test_while_one_call_tries_an_old_limit_the_others_wait_for_its_outcome():
    clock = ShiftedClock()
    async with talk(limits=RateLimits(clock)) as (backend, server):
        server.script(Fault("status", status=429, headers={"retry-after": "31536000"}), Fault("stall"))
        with pytest.raises(RateLimitedError):
            await hear(backend)
        clock.shift = BELIEVED_S + 1
        heard = []

        async def listen():
            heard.append((await hear(backend)).text)

        async with anyio.create_task_group() as callers, anyio.create_task_group() as trying:
            trying.start_soon(hear, backend)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            for _ in range(3):
                callers.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 2
            trying.cancel_scope.cancel()
        assert heard == ["one two three"] * 3


@pytest.mark.parametrize("told", [False, True], ids=["a wait", "a limit"])
def test_after_a_pause_calls_go_out_at_the_pace_of_the_server_and_not_all_at_once(told):
    """A server that lets 60 calls pass in a second, and 90 callers who wait."""
    clock = Clock()
    limits = RateLimits(clock)
    one = {"requests": 1}
    for number in range(90):
        call = PendingCall(limits, one)
        if number < 60:
            call.read(Chunk(headers={}))
        else:
            headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"} if told else {}
            call.fail(RateLimitedError("Slowly.", retry_after_s=None if told else 1.0, headers=headers))
    sent = []
    for _ in range(3000):  # milliseconds
        while len(sent) < 90 and limits.wait_s(one) <= 0:
            sent.append(clock.now)
            PendingCall(limits, one).read(Chunk(headers={}))
        clock.now += 0.001
    assert len(sent) == 90
    assert sent[0] >= 1
    busiest = max(sum(start <= at < start + 0.05 for at in sent) for start in sent)
    assert busiest <= 10  # the pace of the server is three calls in 50 ms


def test_a_long_queue_does_not_outrun_the_server_while_it_speeds_up():
    """600 callers at a server that lets 60 calls pass in a second, names no limit, and answers after 50 ms."""
    clock, one = Clock(), {"requests": 1}
    limits = RateLimits(clock)
    waiting, level, sent, back = 600, 60.0, [], []
    refused = accepted = 0
    while accepted < 600:
        level = min(60.0, level + 0.06)  # in a millisecond
        while back and back[0] <= clock.now:
            back.pop(0)
            waiting += 1
        while sent and sent[0][0] <= clock.now:
            _, call, passes = sent.pop(0)
            if passes:
                call.read(Chunk(headers={}))
                accepted += 1
            else:
                call.fail(RateLimitedError("Slowly.", retry_after_s=1.0))
                back.append(clock.now + 1.0)
        while waiting and limits.wait_s(one) <= 0:
            passes, waiting = level >= 1, waiting - 1
            level -= passes
            refused += not passes and clock.now > 0.5
            sent.append((clock.now + 0.05, PendingCall(limits, one), passes))
        clock.now += 0.001
    assert refused <= 20
    assert clock.now < 15  # nine seconds is what the server needs


async def test_a_busy_program_that_wakes_late_does_not_send_its_queue_at_once():
    clock, one = Clock(), {"requests": 1}
    limits = RateLimits(clock)
    for _ in range(20):
        PendingCall(limits, one).read(Chunk(headers={}))
    PendingCall(limits, one).fail(RateLimitedError("Slowly.", retry_after_s=1.0))
    clock.now = 2.5  # the pause and the time after it are over, and the last call was long ago
    async with anyio.create_task_group() as waiting:
        for _ in range(3):
            waiting.start_soon(limits.wait, 60.0)
        await anyio.wait_all_tasks_blocked()
        PendingCall(limits, one)
        assert limits.wait_s(one) > 0
        waiting.cancel_scope.cancel()


def test_a_call_that_never_reached_the_server_takes_nothing_from_the_limit():
    limits = RateLimits(Clock())
    limits.read({"x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "60s"})
    for _ in range(5):
        PendingCall(limits, {"requests": 1}).fail(ConnectionFailedError("Not there."))
    assert limits.wait_s({"requests": 1}) == 0
