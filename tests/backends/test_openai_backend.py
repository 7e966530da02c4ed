import pytest
from talking import ACCOUNTED, KEY, asking, check_account, hear, served, settled

from stretto import AsyncStretto
from stretto.backends.base import ModelRequest
from stretto.backends.providers.openai import OpenAIBackend
from stretto.testing.server import Fault, ScriptedServer
from stretto.values.errors import RequestRejectedError
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio

EVERYTHING = GenerationOptions(max_tokens=50, temperature=0.5, top_p=0.9, stop="END", seed=7)
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


def talk(model="gpt-4.1", replies="OK.", **settings):
    return served(lambda server: OpenAIBackend(model, base_url=server.openai_url, api_key=KEY), replies, **settings)


async def test_it_streams_text_usage_headers_and_finish_reason():
    async with talk(replies=ACCOUNTED, headers={"x-ratelimit-remaining-requests": "7", "set-cookie": "a=b"}) as (
        backend,
        _,
    ):
        heard = await hear(backend)
    check_account(heard)
    assert heard.headers == {"x-ratelimit-remaining-requests": "7", "x-request-id": "req-1", "request-id": "req-1"}


async def test_all_options_arrive_under_the_names_of_the_api():
    messages = (Message(role="system", content="Be brief."), Message(role="user", content="Hello"))
    async with talk() as (backend, server):
        await hear(backend, ModelRequest(messages=messages, response_schema=SCHEMA), EVERYTHING)
    sent = dict(server.requests[0].body)
    assert sent.pop("response_format")["json_schema"]["schema"] == SCHEMA
    assert sent == {
        "model": "gpt-4.1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
    }


async def test_openai_itself_gets_the_newer_name_of_the_token_limit(monkeypatch):
    async with ScriptedServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        backend = OpenAIBackend("gpt-4.1")
        await hear(backend, options=EVERYTHING)
        await backend.aclose()
    assert "max_completion_tokens" in server.requests[0].body
    assert "max_tokens" not in server.requests[0].body


async def test_what_a_family_refuses_is_not_sent():
    async with talk("gpt-5-mini", rejects=("temperature", "top_p", "stop")) as (backend, server):
        heard = await hear(backend, options=EVERYTHING)
    assert len(server.requests) == heard.usage.calls == 1
    assert server.requests[0].body["seed"] == 7


async def test_what_a_server_refuses_is_left_out_and_remembered():
    async with talk("some-model", rejects=("temperature", "stream_options")) as (backend, server):
        first = await hear(backend, options=EVERYTHING)
        assert first.text == "OK."
        assert (first.usage.calls, len(server.requests)) == (3, 3)
        await hear(backend, options=EVERYTHING)
    assert len(server.requests) == 4
    assert not {"temperature", "stream_options"} & set(server.requests[-1].body)
    assert server.requests[-1].body["top_p"] == 0.9


async def test_the_token_limit_is_renamed_and_not_lost():
    async with talk("some-model", rejects=("max_tokens",)) as (backend, server):
        await hear(backend, options=EVERYTHING)
        await hear(backend, options=EVERYTHING)
    assert ["max_tokens" in request.body for request in server.requests] == [True, False, False]
    assert server.requests[-1].body["max_completion_tokens"] == 50


async def test_what_the_meaning_hangs_on_is_never_left_out():
    async with talk("gpt-4.1", rejects=("response_format",)) as (backend, server):
        with pytest.raises(RequestRejectedError, match="response_format") as caught:
            await hear(backend, asking(response_schema=SCHEMA))
    assert caught.value.parameter == "response_format"
    assert len(server.requests) == 1


async def test_a_refused_value_is_not_taken_for_a_refused_parameter():
    async with talk("some-model") as (backend, server):
        server.script(Fault("status", status=400, message="max_tokens is too large: 50. At most 10 are allowed."))
        with pytest.raises(RequestRejectedError) as caught:
            await hear(backend, options=EVERYTHING)
    assert caught.value.parameter is None
    assert len(server.requests) == 1


async def test_low_effort_is_asked_of_models_that_take_one():
    async with talk("gpt-5-mini") as (backend, server):
        await hear(backend, asking(effort="low"))
    assert server.requests[0].body["reasoning_effort"] == "low"
    async with talk("gpt-4.1") as (backend, server):
        await hear(backend, asking(effort="low"))
    assert "reasoning_effort" not in server.requests[0].body


async def test_the_key_of_the_environment_does_not_go_to_another_server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with ScriptedServer(key="none") as server:
        backend = OpenAIBackend("some-model", base_url=server.openai_url)
        assert (await hear(backend)).text == "OK."  # let in, so the key that was sent is "none"
        await backend.aclose()


async def test_tokens_are_estimated_without_a_call():
    async with talk() as (backend, server):
        assert 10 < await backend.count_tokens(asking("word " * 20)) < 60
        assert server.requests == []


async def test_calls_with_a_long_beginning_in_common_carry_one_cache_key_to_openai_itself(monkeypatch):
    def reply(received):
        return "1. Tyres\n2. Chain" if "Write only the outline" in received.prompt else "Some text."

    async def keys(document, **where):
        async with AsyncStretto("openai:gpt-4.1", api_key=KEY, **where) as stretto:
            await stretto.ask(
                "How do I look after it?",
                strategy="skeleton",
                strategy_options={"form": "points"},
                documents=[document],
            )
        found = [received.body.get("prompt_cache_key") for received in server.requests]
        server.requests.clear()
        return found

    async with ScriptedServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        first = await keys("A bicycle has two wheels. " * 200)
        assert len(first) == 3
        assert len(set(first)) == 1
        assert first[0] is not None
        assert await keys("A bicycle has three wheels. " * 200) != first
        assert await keys("Short.") == [None] * 3
        assert await keys("A bicycle has two wheels. " * 200, base_url=server.openai_url) == [None] * 3


async def test_the_connection_of_a_whole_answer_is_kept_for_the_next_one():
    async with talk() as (backend, server):
        await hear(backend)
        await settled()
        assert server.open_connections == 1
