import json

import pytest
from talking import ACCOUNTED, KEY, asking, check_account, hear, served

from stretto import AsyncStretto
from stretto.backends.base import ModelRequest
from stretto.backends.providers.anthropic import AnthropicBackend
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


def talk(model="claude-haiku-4-5", replies="OK.", **settings):
    return served(lambda server: AnthropicBackend(model, base_url=server.url, api_key=KEY), replies, **settings)


async def test_it_streams_text_usage_headers_and_finish_reason():
    limits = {"anthropic-ratelimit-requests-remaining": "7"}
    async with talk(replies=ACCOUNTED, headers=limits) as (backend, _):
        heard = await hear(backend)
    check_account(heard)
    assert limits.items() <= heard.headers.items()


async def test_system_is_apart_and_turns_of_one_role_are_merged():
    said = [("system", "Be brief."), ("system", "Be kind."), ("user", "a"), ("user", "b"), ("assistant", "c")]
    messages = tuple(Message(role=role, content=content) for role, content in [*said, ("user", "d")])
    async with talk() as (backend, server):
        await hear(backend, ModelRequest(messages=messages))
    body = server.requests[0].body
    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["messages"] == [
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    assert body["max_tokens"] > 1_000


async def test_sampling_schema_and_effort_go_where_the_api_wants_them():
    options = GenerationOptions(max_tokens=50, temperature=0.5, stop="END", seed=7)
    async with talk("claude-opus-4-6") as (backend, server):
        await hear(backend, asking(effort="low", response_schema=SCHEMA), options)
    body = server.requests[0].body
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (50, 0.5, ["END"])
    assert "seed" not in body


async def test_the_newest_models_are_sent_no_sampling_parameters():
    async with talk("claude-opus-5", rejects=("temperature", "top_p")) as (backend, server):
        await hear(backend, options=GenerationOptions(temperature=0.5, top_p=0.9))
    assert len(server.requests) == 1


async def test_a_refused_parameter_is_left_out_and_remembered():
    async with talk("claude-haiku-4-5", rejects=("temperature",)) as (backend, server):
        for _ in range(2):
            assert (await hear(backend, options=GenerationOptions(temperature=0.5))).text == "OK."
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]


class Caching:
    """What a provider's cache does: an entry is written where a mark stands, and read by prompts that begin with it."""

    def __init__(self):
        self.entries = set()

    def __call__(self, received):
        body = received.body
        text = "1. Tyres\n2. Chain\n3. Brakes" if "Write only the outline" in received.prompt else "Some text."
        content = body["messages"][-1]["content"]
        if isinstance(content, str):
            return text
        before = json.dumps([body.get("system"), body["messages"][:-1], content[0]])
        tokens = len(before) // 4
        known = before in self.entries
        self.entries.add(before)
        return HttpReply(
            text,
            prompt_tokens=tokens + 100,
            cached_tokens=tokens if known else 0,
            cache_write_tokens=0 if known else tokens,
        )


async def ask(model, question, **request):
    async with ScriptedServer(Caching()) as server:
        async with AsyncStretto(f"anthropic:{model}", base_url=server.url, api_key=KEY) as stretto:
            answer = await stretto.ask(question, strategy="skeleton", strategy_options={"form": "points"}, **request)
        return answer, [received.body for received in server.requests]


@pytest.mark.parametrize("preference", ["balanced", "careful"])
async def test_the_outline_writes_the_shared_beginning_to_the_cache_and_the_points_read_it(preference):
    document = "A bicycle has two wheels. " * 800
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    answer, bodies = await ask(
        "claude-sonnet-4-6",
        [*history, {"role": "user", "content": "How do I look after it?"}],
        documents=[document],
        preference=preference,
        system="Be brief.",
    )
    assert len(bodies) == 4
    shared = [body["messages"][-1]["content"][0] for body in bodies]
    assert all(block == shared[0] for block in shared)
    assert shared[0]["cache_control"] == {"type": "ephemeral"}
    assert document in shared[0]["text"]
    assert shared[0]["text"].endswith("How do I look after it?")
    assert all(body["system"] == "Be brief." for body in bodies)
    assert answer.usage.cache_write_tokens > 5_000
    assert answer.usage.cached_tokens == 3 * answer.usage.cache_write_tokens
    assert answer.usage.prompt_tokens == 4 * (answer.usage.cache_write_tokens + 100)


@pytest.mark.parametrize(("model", "characters"), [("claude-sonnet-4-6", 3_000), ("claude-haiku-4-5", 13_000)])
async def test_a_beginning_that_the_provider_would_not_cache_is_not_marked(model, characters):
    answer, bodies = await ask(model, "How do I look after it?", documents=["x" * characters])
    assert all(isinstance(body["messages"][-1]["content"], str) for body in bodies)
    assert answer.usage.cache_write_tokens == 0
