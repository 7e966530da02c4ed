"""Rate limits and breakers that replicas share, with a real redis-server."""

import logging
import secrets
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from patience import patience
from ports import reserved_port
from redis.asyncio import Redis
from redis_server import needs_redis, running_redis
from talking import KEY, asking, hear

from stretto import AsyncStretto, Settings
from stretto.backends.allowance import Caller, allowed
from stretto.backends.registry import open_backend
from stretto.backends.resilience.rate_limits import BELIEVED_S, PendingCall, RateLimits, Report, reports
from stretto.backends.resilience.redis_store import RedisStore
from stretto.backends.resilience.resilient import Endpoints, Resilience
from stretto.backends.resilience.shared import News
from stretto.backends.resilience.suspects import MOST_TRIALS
from stretto.strategies.runtime.ledger import Ledger, Reservation
from stretto.testing.server import Fault, ScriptedServer
from stretto.values.budget import Budget
from stretto.values.errors import BackendError, BreakerOpenError, RateLimitedError, SettingsError
from stretto.values.request import GenerationOptions

pytestmark = [pytest.mark.anyio, needs_redis]

ONE = {"requests": 1}
MODEL = ("openai", "http://somewhere/v1", "some-model")
TWO_LEFT = {"x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "1h"}


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


class Clock:
    now = 1_795_000_000.0  # as a server's: what a time loses in Lua or JSON would show

    def __call__(self):
        return self.now


@asynccontextmanager
async def stores(redis, number, **how):
    """Stores of so many replicas that share a prefix with nobody else."""
    prefix = secrets.token_hex(8)
    async with AsyncExitStack() as closing:
        found = [RedisStore(redis.url, prefix=prefix, timeout_s=patience(30), **how) for _ in range(number)]
        for store in found:
            closing.push_async_callback(store.aclose)
        yield found


@asynccontextmanager
async def replicas(redis, number, reply="one two three", clock=None, **policy):
    """Backends of so many replicas in front of one scripted server."""
    resilience = Resilience(attempts=1, breaker_faults=2, breaker_over_s=0, **policy)
    async with (
        ScriptedServer(reply) as server,
        stores(redis, number, clock=clock) as shared,
        AsyncExitStack() as closing,
    ):
        backends = []
        for store in shared:
            endpoints = Endpoints(store=store)
            backend = open_backend(
                "openai:m", base_url=server.openai_url, api_key=KEY, resilience=resilience, endpoints=endpoints
            )
            closing.push_async_callback(backend.aclose)
            backends.append(backend)
        yield backends, server


async def fail(backend, server, *faults):
    for fault in faults:
        server.script(fault)
        with pytest.raises(BackendError):
            await hear(backend)


# Rate limits


async def test_when_a_server_asks_one_replica_to_wait_the_others_do_not_call_it(redis):
    async with replicas(redis, 2) as ((first, second), server):
        await fail(first, server, Fault("status", status=429, headers={"retry-after": "3600"}))
        # Less than the longest pause of 120 s, at any speed of the machine: then the wait is not begun.
        with anyio.fail_after(60), pytest.raises(RateLimitedError, match="passes the deadline"):
            await hear(second)
        assert len(server.requests) == 1


async def test_replicas_together_send_no_more_than_a_server_says_is_left(redis):
    clock = Clock()
    async with stores(redis, 10, clock=clock) as shared:
        limits = [store.limits(MODEL) for store in shared]
        await limits[0].report(News({}, reported={"requests": Report(7, None, 60.0)}))
        rooms = []

        async def take(one):
            rooms.append(await one.take(ONE, ONE))

        async with anyio.create_task_group() as tasks:
            for one in limits * 5:
                tasks.start_soon(take, one)
        assert Counter(room.wait_s for room in rooms) == {0.0: 7, 60.0: 43}


async def test_what_other_replicas_have_on_the_way_counts_against_a_report(redis):
    async with stores(redis, 2, clock=Clock()) as (first, second):
        mine, theirs = first.limits(MODEL), second.limits(MODEL)
        assert (await theirs.take(ONE, {"requests": 3})).wait_s == 0
        await mine.report(News({}, reported=reports(TWO_LEFT)))
        assert (await mine.take(ONE, ONE)).wait_s > 0
        await theirs.report(News({}, reported=reports(TWO_LEFT)))  # they have arrived, and the server included them
        assert (await mine.take(ONE, ONE)).wait_s == 0


async def test_what_a_replica_that_died_had_on_the_way_is_forgotten(redis):
    clock = Clock()
    async with stores(redis, 2, clock=clock) as (first, dead):
        await dead.limits(MODEL).take(ONE, {"requests": 100})
        clock.now += BELIEVED_S + 1
        await first.limits(MODEL).report(News({}, reported=reports(TWO_LEFT)))
        assert (await first.limits(MODEL).take(ONE, ONE)).wait_s == 0


async def test_a_report_that_came_to_one_replica_holds_for_all(redis):
    async with replicas(redis, 3) as (backends, server):
        server._headers = TWO_LEFT | {"x-ratelimit-remaining-requests": "1"}
        await hear(backends[0])
        server._headers = {}
        await hear(backends[1])
        with anyio.fail_after(60), pytest.raises(RateLimitedError):
            await hear(backends[2])
        assert len(server.requests) == 2


async def test_a_call_that_was_cancelled_before_its_answer_gives_its_place_back(redis):
    async with replicas(redis, 2) as ((first, second), server):
        server._headers = TWO_LEFT
        await hear(first)
        server._headers = {}
        server.script(Fault("stall", after=0))
        async with anyio.create_task_group() as callers:
            callers.start_soon(hear, first)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            callers.cancel_scope.cancel()
        server._headers = TWO_LEFT
        await hear(second)
        server._headers = {}
        for backend in (first, second):  # both of the two: none is counted as on its way
            assert (await hear(backend)).text == "one two three"


reported = st.fixed_dictionaries(
    {
        "remaining": st.floats(0, 100).map(float),
        "size": st.none() | st.floats(0, 200).map(float),
        "window_s": st.floats(0, 200).map(float),
    }
)
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("report"), reported),
        st.tuples(st.just("send"), st.integers(1, 50)),
        st.tuples(st.just("settle"), st.none()),
        st.tuples(st.just("lost"), st.none()),
        st.tuples(st.just("hold"), st.floats(0, 100).map(float)),
        st.tuples(st.just("later"), st.floats(0, 40).map(float)),
    ),
    max_size=15,
)


TINY = {"remaining": 0.0, "size": 1e-45, "window_s": 1.0}


@given(happened=happenings)
@example(happened=[("send", 1), ("report", TINY), ("send", 1)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_replica_alone_waits_as_long_as_it_would_without_a_store(redis, happened):
    """The scripts say the same as `RateLimits`, as long as reports are believed."""
    clock = Clock()
    began = clock.now
    async with stores(redis, 1, clock=clock) as (store,):
        own, shared = RateLimits(clock), store.limits(MODEL)
        calls = []
        for what, value in happened:
            if what == "later":
                clock.now += value
                if clock.now - began > BELIEVED_S:
                    return  # from here on one call of each replica finds out
            elif what == "send":
                cost = {"tokens": value}
                room = await shared.take(cost, {"tokens": own.flying.get("tokens", 0) + value})
                believed, _ = own._waits_s(cost, clock.now)
                assert room.wait_s == pytest.approx(believed, abs=0.01)
                if believed <= 0:
                    calls.append(PendingCall(own, cost))
            elif what == "report":
                own._buckets.pop("tokens", None)
                report = Report(**value)
                own.read(
                    {
                        "x-ratelimit-remaining-tokens": repr(report.remaining),
                        "x-ratelimit-reset-tokens": repr(report.window_s),
                        **({} if report.size is None else {"x-ratelimit-limit-tokens": repr(report.size)}),
                    }
                )
                await shared.report(News(own.flying, reported={"tokens": report}))
            elif what == "hold":
                own.hold(value)
                await shared.report(News(own.flying, hold_s=value))
            elif calls and what == "settle":
                calls.pop().settle()
                await shared.report(News(own.flying))
            elif calls:
                call = calls.pop()
                call.take_back()
                await shared.report(News(own.flying, returned=call.cost))


# Breakers


async def test_faults_that_several_replicas_met_open_the_breaker_of_all(redis):
    async with replicas(redis, 3) as (backends, server):
        await fail(backends[0], server, Fault("status", status=500))
        await fail(backends[1], server, Fault("status", status=502))
        with pytest.raises(BreakerOpenError, match=r"failed 2 times in a row, the last with HTTP 502\."):
            await hear(backends[2])
        assert len(server.requests) == 2


async def test_requests_that_a_server_fails_at_do_not_close_it_for_others(redis):
    async with replicas(redis, 2) as ((harmed, sound), server):
        for number in range(2):
            server.script(Fault("status", status=500))
            with pytest.raises(BackendError):
                await hear(harmed, asking(f"Poison {number}."))
        with pytest.raises(BreakerOpenError):
            await hear(harmed, asking("Poison 0."))
        assert (await hear(sound, asking("Any other question."))).text == "one two three"


async def test_a_server_that_fails_at_whatever_it_is_asked_is_left_alone_in_the_end(redis):
    async with replicas(redis, 2) as (backends, server):
        for number in range(2 + MOST_TRIALS):
            server.script(Fault("status", status=500))
            with pytest.raises(BackendError):
                await hear(backends[number % 2], asking(f"Poison {number}."))
        assert len(server.requests) == 2 + MOST_TRIALS
        for backend in backends:
            with pytest.raises(BreakerOpenError):
                await hear(backend, asking("Any other question."))


async def test_a_whole_answer_of_one_replica_starts_the_count_of_all_anew(redis):
    async with replicas(redis, 2) as ((first, second), server):
        for backend in (first, second, first):
            await fail(backend, server, Fault("status", status=500))
            assert (await hear(second)).text == "one two three"


@pytest.mark.thorough
async def test_after_a_rest_one_call_of_one_replica_tries_and_the_others_wait_for_it(redis):
    clock = Clock()
    async with replicas(redis, 3, clock=clock) as ((ill, trying, waiting), server):
        await fail(ill, server, *[Fault("reset")] * 2)
        clock.now += 31
        heard = []

        async def listen():
            heard.append((await hear(waiting)).text)

        server.script(Fault("stall", after=0))  # the trial hangs until it is cancelled
        async with anyio.create_task_group() as callers, anyio.create_task_group() as trial:
            trial.start_soon(hear, trying)
            await server.wait_until(lambda server: server.requests[-1].outcome == "stall")
            for _ in range(5):
                callers.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 3
            trial.cancel_scope.cancel()
        assert heard == ["one two three"] * 5


async def test_a_trial_whose_replica_died_is_another_replicas_after_a_rest(redis):
    clock = Clock()
    async with stores(redis, 2, clock=clock) as shared:
        dead, alive = (store.health(MODEL[:2], faults=1, over_s=0, rest_s=30) for store in shared)
        await dead.report("fault")
        clock.now += 31
        assert (await dead.admit("a", None)).verdict == "try"
        assert (await alive.admit("b", None)).verdict == "wait"
        clock.now += 31
        assert (await alive.admit("b", None)).verdict == "try"
        await alive.report("answers", token="b")  # noqa: S106 - no secret
        assert (await dead.admit("c", None)).verdict == "go"


async def test_faults_of_one_short_disturbance_do_not_open_it(redis):
    clock = Clock()
    async with stores(redis, 1, clock=clock) as (store,):
        health = store.health(MODEL[:2], faults=3, over_s=5, rest_s=30)
        for _ in range(9):
            await health.report("fault")
        assert (await health.admit("a", None)).verdict == "go"
        clock.now += 5
        await health.report("fault")
        assert (await health.admit("a", None)).verdict == "no"


async def ask_as(answer, part, backend):
    with allowed(Reservation(Ledger(Budget())), Caller(answer, part)):
        return await hear(backend)


async def test_the_faults_of_one_part_of_an_answer_leave_another_part_of_it_one_call(redis):
    async with replicas(redis, 2) as ((first, second), server):
        for _ in range(2):
            server.script(Fault("status", status=502))
            with pytest.raises(BackendError):
                await ask_as(1, "outline", first)
        with pytest.raises(BreakerOpenError):
            await ask_as(1, "outline", second)  # answer 1 of another replica is another answer
        assert (await ask_as(1, "direct", first)).text == "one two three"


# Redis goes away


async def test_without_redis_each_replica_goes_on_by_itself_with_one_warning(caplog):
    with reserved_port() as port:
        store = RedisStore(f"redis://:secret@127.0.0.1:{port}/3")
    async with ScriptedServer("one two three") as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY, endpoints=Endpoints(store=store))
        for _ in range(5):
            assert (await hear(backend)).text == "one two three"
        await fail(backend, server, Fault("status", status=429, headers={"retry-after": "3600"}))
        with anyio.fail_after(60), pytest.raises(RateLimitedError):
            await hear(backend)
        await backend.aclose()
    await store.aclose()
    (warned,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "database 3 cannot be used" in warned.getMessage()
    assert "secret" not in caplog.text


async def test_when_redis_comes_back_replicas_share_again(redis, tmp_path, caplog):
    caplog.set_level(logging.INFO, "stretto")
    with running_redis(tmp_path) as own:
        async with stores(own, 2, again_s=0) as (first, second):
            mine, theirs = (
                first.health(MODEL[:2], faults=1, over_s=0, rest_s=30),
                second.health(MODEL[:2], faults=1, over_s=0, rest_s=30),
            )
            await mine.report("fault")
            assert (await theirs.admit("a", None)).verdict == "no"
            own.stop()
            for _ in range(3):
                assert (await theirs.admit("a", None)).verdict == "go"
            own.start()
            assert (await theirs.admit("a", None)).verdict == "go"  # it has forgotten everything
            await mine.report("fault")
            assert (await theirs.admit("a", None)).verdict == "no"
    assert caplog.text.count("cannot be used") == 1
    assert caplog.text.count("is back:") == 1


async def test_a_redis_that_hangs_holds_nobody_up(caplog):
    async def silent(connection):
        async with connection:
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, silent)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's
        store = RedisStore(f"redis://127.0.0.1:{port}/0", timeout_s=0.05, again_s=3600)
        limits = store.limits(MODEL)
        for _ in range(3):
            assert (await limits.take(ONE, ONE)).wait_s == 0
        await store.aclose()
        tasks.cancel_scope.cancel()
    assert caplog.text.count("no answer in 0.05 s") == 1


# What is kept, and how it is turned on


async def test_keys_begin_with_the_prefix_expire_and_show_no_address(redis):
    async with replicas(redis, 1) as ((backend,), server), Redis.from_url(redis.url, decode_responses=True) as client:
        server._headers = TWO_LEFT
        before = set(await client.keys())
        await hear(backend)
        await fail(backend, server, Fault("status", status=500))
        made = sorted(set(await client.keys()) - before)
        assert [name.split(":")[1] for name in made] == ["health", "limits"]
        assert {0 < await client.ttl(name) <= 3600 for name in made} == {True}
        assert not any("127.0.0.1" in name for name in made)


async def test_a_client_shares_what_the_settings_name(redis, monkeypatch):
    monkeypatch.setenv("STRETTO_SHARED", redis.url)
    async with ScriptedServer("one two three") as server, AsyncExitStack() as opened:
        first, second = [
            await opened.enter_async_context(
                AsyncStretto("openai:m", base_url=server.openai_url, api_key=KEY, settings=Settings.load(attempts=1))
            )
            for _ in range(2)
        ]
        server.script(Fault("status", status=429, headers={"retry-after": "3600"}))
        with pytest.raises(RateLimitedError):
            await first.ask("Hello?")
        with pytest.raises(RateLimitedError):
            await second.ask("Hello?", deadline_s=60)
        assert len(server.requests) == 1


def test_what_is_no_address_is_refused_without_showing_it():
    with pytest.raises(SettingsError, match="redis://HOST") as caught:
        AsyncStretto("local:pocket", settings=Settings(shared="http://:hunter2@host"))
    assert "hunter2" not in str(caught.value)


async def test_a_stream_that_is_left_early_leaves_nothing_behind(redis):
    async with replicas(redis, 1) as ((backend,), server):
        server._headers = TWO_LEFT
        async with backend.stream(asking(), GenerationOptions()) as chunks:
            await anext(chunks)
        assert (await hear(backend)).text == "one two three"
