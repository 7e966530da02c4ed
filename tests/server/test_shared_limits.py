"""Two servers with one Redis: what a key allows, and what a provider allows, is for both together."""

import os
import re
import signal
import sys

import anyio
import openai
import pytest
from live_server import QUESTION, in_front_of
from redis_server import RedisServer, free_port, needs_redis

from stretto import Settings
from stretto.server import ServerOptions
from stretto.testing.server import ScriptedServer

pytestmark = [pytest.mark.anyio, needs_redis]
KEY = "a-long-random-text-1"
ASKED = {"model": "stretto-direct", "messages": QUESTION}


@pytest.fixture
def redis(tmp_path):
    server = RedisServer(tmp_path, free_port())
    server.start()
    yield server
    server.stop()


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
    how = {"options": options(tmp_path, limit), "settings": Settings(retries=0, shared=redis.url)}
    async with in_front_of("Hello.", **how) as first, in_front_of("Hello.", **how) as second:
        assert await ask(first) == "Hello."
        if "requests" in limit:
            assert await ask(second) == "Hello."
        for live in (first, second):
            with pytest.raises(openai.RateLimitError) as refused:
                await ask(live)
            assert 1 <= int(refused.value.response.headers["retry-after"]) <= 60


async def test_without_redis_each_server_counts_by_itself(redis, tmp_path):
    how = {"options": options(tmp_path, "requests_per_minute = 2"), "settings": Settings(retries=0, shared=redis.url)}
    async with in_front_of("Hello.", **how) as first, in_front_of("Hello.", **how) as second:
        assert await ask(first) == "Hello."
        redis.stop()
        assert await ask(first) == "Hello."
        with pytest.raises(openai.RateLimitError):
            await ask(first)
        assert [await ask(second) for _ in range(2)] == ["Hello."] * 2


async def test_the_program_says_where_limits_are_shared_and_shows_no_password(redis):
    async with ScriptedServer("Hello.") as upstream:
        command = [sys.executable, "-m", "stretto.cli", "serve", "-m", "openai:scripted", "--port", "0"]
        command += ["--base-url", upstream.openai_url, "--shared", f"redis://anna:hunter2@127.0.0.1:{redis.port}/2"]
        async with await anyio.open_process(command, env={**os.environ, "STRETTO_SETTINGS": os.devnull}) as server:
            said = ""
            with anyio.fail_after(60):
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
