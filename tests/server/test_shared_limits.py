"""Two servers with one Redis: what a key allows, and what a provider allows, is for both together."""

import asyncio
import os
import re
import signal
import sys
from contextlib import aclosing, suppress

import anyio
import openai
import pytest
from live_server import QUESTION, in_front_of
from patience import patience
from redis.asyncio import Redis
from redis_server import needs_redis, running_redis

from stretto import Settings
from stretto.backends.resilience.redis_store import RedisStore
from stretto.server import ServerOptions
from stretto.server.limits.keys import Places
from stretto.testing.server import HttpReply, ScriptedServer

pytestmark = [pytest.mark.anyio, needs_redis]
KEY = "a-long-random-text-1"
ASKED = {"model": "stretto-direct", "messages": QUESTION}
SLOW = HttpReply("Slowly.", time_to_first_token_s=3600)


@pytest.fixture
def redis(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


def options(tmp_path, limit):
    file = tmp_path / "keys.toml"
    file.write_text(f'[anna]\nkey = "{KEY}"\n{limit}\n')
    file.chmod(0o600)
    return ServerOptions(port=0, keys=file)


async def ask(live):
    async with live.openai(KEY) as client:
        return (await client.chat.completions.create(**ASKED)).choices[0].message.content


@pytest.mark.parametrize("limit", ["requests_per_minute = 2", "tokens_per_minute = 5"])
async def test_what_a_key_allows_in_a_minute_is_for_both_servers_together(redis, tmp_path, limit):
    how = {"options": options(tmp_path, limit), "settings": Settings(attempts=1, shared=redis.url)}
    async with in_front_of("Hello.", **how) as first, in_front_of("Hello.", **how) as second:
        assert await ask(first) == "Hello."
        if "requests" in limit:
            assert await ask(second) == "Hello."
        for live in (first, second):
            with pytest.raises(openai.RateLimitError) as refused:
                await ask(live)
            # Tokens of the first answer are owed, and a prompt that asks for more than a minute has needs all of it.
            assert 1 <= int(refused.value.response.headers["retry-after"]) <= (60 if "requests" in limit else 120)


async def test_the_answers_of_a_key_at_a_time_are_those_of_both_servers(redis, tmp_path):
    limits = options(tmp_path, "concurrent_answers = 1\nrequests_per_minute = 2")
    how = {"options": limits, "settings": Settings(attempts=1, shared=redis.url)}
    async with in_front_of(SLOW, **how) as first, in_front_of("Hello.", **how) as second:
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask, first)
            await first.upstream.wait_until(lambda upstream: upstream.active_streams == 1)
            for live in (first, second):
                with pytest.raises(openai.RateLimitError, match="The key anna allows 1 answers at a time"):
                    await ask(live)
            asking.cancel_scope.cancel()
        async with Redis.from_url(redis.url) as client:
            with anyio.fail_after(patience(20)):
                while await client.keys("*places*"):  # given back after the answer is no longer counted here
                    await anyio.lowlevel.checkpoint()
        assert await ask(second) == "Hello."  # the second request of this minute: those in vain were none


async def test_a_place_is_held_anew_and_one_that_nobody_holds_comes_free(redis):
    now = 1_795_000_000.0
    store = RedisStore(redis.url, prefix="places", clock=lambda: now)
    places = Places(2, "anna", store, lease_s=0.03)
    async with Redis.from_url(redis.url) as client, aclosing(store):
        assert await store.hold("anna", "of a server that is killed", most=2, for_s=0.03)
        async with places.one() as held:
            assert held
            async with places.one() as third:
                assert not third
            (key,) = await client.keys("places:*")
            for _ in range(3):
                now += 0.02
                with anyio.fail_after(patience(20)):
                    while not await client.zcount(key, now + 0.03, "inf"):
                        pass
            async with places.one() as second, places.one() as third:
                assert (second, third) == (True, False)
        assert not await client.exists(key)


async def test_a_place_is_given_back_when_its_answer_ends_while_it_is_held_anew():
    calls = []

    class Store:
        """Swallows a cancellation, as redis's client does at times on Python 3.11."""

        asked, answers = anyio.Event(), anyio.Event()

        async def hold(self, *_, for_s, **__):
            calls.append(for_s)
            if len(calls) == 2:
                self.asked.set()
                with suppress(asyncio.CancelledError):
                    await self.answers.wait()
            return True

    store = Store()

    async def end():
        await store.asked.wait()
        await anyio.wait_all_tasks_blocked()
        store.answers.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        async with Places(1, "anna", store, lease_s=0.03).one():
            await store.asked.wait()
    assert calls == [0.03, 0.03, 0]
    assert not [task for task in asyncio.all_tasks() if "_renew" in repr(task)]


async def test_without_redis_each_server_counts_by_itself(redis, tmp_path):
    how = {"options": options(tmp_path, "requests_per_minute = 2"), "settings": Settings(attempts=1, shared=redis.url)}
    async with in_front_of("Hello.", **how) as first, in_front_of("Hello.", **how) as second:
        assert await ask(first) == "Hello."
        redis.stop()
        assert await ask(first) == "Hello."
        with pytest.raises(openai.RateLimitError):
            await ask(first)
        assert [await ask(second) for _ in range(2)] == ["Hello."] * 2


@pytest.mark.thorough
async def test_the_program_says_where_limits_are_shared_and_shows_no_password(redis):
    async with ScriptedServer("Hello.") as upstream:
        command = [sys.executable, "-m", "stretto.cli", "serve", "-m", "openai:scripted", "--port", "0"]
        command += ["--base-url", upstream.openai_url, "--shared", f"redis://anna:hunter2@127.0.0.1:{redis.port}/2"]
        async with await anyio.open_process(command, env={**os.environ, "STRETTO_SETTINGS": os.devnull}) as server:
            said = ""
            with anyio.fail_after(patience(60)):
                while "Ctrl-C" not in said:
                    said += (await server.stderr.receive()).decode()
                # A wrong password, as this Redis knows none: the server goes on without it.
                url = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
                async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none") as client:
                    answer = await client.chat.completions.create(**ASKED)
                server.send_signal(signal.SIGTERM)
                while True:
                    try:
                        said += (await server.stderr.receive()).decode()
                    except anyio.EndOfStream:
                        break
    assert answer.choices[0].message.content == "Hello."
    assert f"shared through redis at 127.0.0.1:{redis.port}, database 2" in said
    assert "hunter2" not in said
