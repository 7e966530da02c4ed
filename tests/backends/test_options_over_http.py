"""Options of a request as providers take them: stop texts, what a model does not take, the most it can write."""

import json

import pytest
from raw_streams import Anthropic, OpenAI, raw
from talking import KEY, hear

from stretto import AsyncStretto
from stretto.backends.base import ModelRequest
from stretto.backends.registry import open_backend
from stretto.testing.protocols import RawResponse
from stretto.testing.server import ScriptedServer
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "openai:some-model"])
async def test_a_stop_text_ends_the_answer_also_where_the_provider_does_not_heed_it(model):
    text = "one two EN three END four five"
    deltas = [OpenAI.delta(text[at : at + 5]) for at in range(0, len(text), 5)]
    async with ScriptedServer(raw(*deltas, OpenAI.finish(OpenAI.usage))) as server:
        backend = open_backend(model, base_url=server.openai_url, api_key=KEY)
        heard = await hear(backend, options=GenerationOptions(stop="END"))
        await backend.aclose()
    assert (heard.text, heard.finish) == ("one two EN three ", "stop")
    assert heard.usage.completion_tokens > 0


async def test_options_that_a_model_does_not_take_are_named_in_the_warnings():
    for model, options, left_out in (
        ("openai:gpt-5-mini", {"temperature": 0.5, "top_p": 0.9, "seed": 7}, "temperature=0.5 and top_p=0.9"),
        ("anthropic:claude-haiku-4-5", {"temperature": 0.5, "seed": 7}, "seed=7"),
        ("anthropic:claude-opus-5", {"top_p": 0.5}, "top_p=0.5"),
        ("openai:gpt-4.1", {"temperature": 0.5, "seed": 7}, None),
    ):
        async with ScriptedServer("Yes.") as server:
            url = server.openai_url if model.startswith("openai") else server.url
            async with AsyncStretto(model, base_url=url, api_key=KEY) as stretto:
                answer = await stretto.ask("Why?", strategy="direct", **options)
        assert answer.text == "Yes."
        told = [(warning.code, warning.partition(" had ")[0]) for warning in answer.warnings]
        assert told == ([("option", left_out)] if left_out else [])


async def test_arguments_of_a_chat_template_are_named_where_openai_answers():
    prompt = ModelRequest((), extra={"chat_template_kwargs": {"enable_thinking": True}})
    found = open_backend("openai:gpt-5", api_key=KEY).left_out(prompt)
    assert [(warning.code, warning.split()[0]) for warning in found] == [("option", "chat_template_kwargs")]


async def test_an_option_that_turned_out_to_be_refused_is_named_too():
    async with (
        ScriptedServer("Yes.", rejects=("temperature",)) as server,
        AsyncStretto("openai:some-model", base_url=server.openai_url, api_key=KEY) as stretto,
    ):
        for _ in range(2):
            answer = await stretto.ask("Why?", strategy="direct", temperature=0.5)
            assert answer.warnings == ("temperature=0.5 had no effect: openai:some-model does not take it.",)


@pytest.mark.parametrize(
    ("model", "most"),
    [("gpt-4o-mini", 16_384), ("gpt-5", 128_000), ("claude-haiku-4-5", 64_000), ("other", 1_048_576)],
)
async def test_no_more_tokens_are_asked_for_than_the_model_can_write(model, most):
    api = Anthropic if model.startswith("claude") else OpenAI
    async with ScriptedServer("Yes.") as server:
        backend = api.connect(model, base_url=api.url(server), api_key=KEY)
        await hear(backend, options=GenerationOptions(max_tokens=6 * 10**18))
        await hear(backend, options=GenerationOptions(max_tokens=10))
        await backend.aclose()
    assert [received.body["max_tokens"] for received in server.requests] == [most, 10]


@pytest.mark.parametrize(
    ("model", "options", "sent"),
    [
        ("openai:gpt-4.1", {}, True),
        ("openai:gpt-5-mini", {}, False),
        ("openai:gpt-4.1", {"max_tokens": 5_000}, False),
    ],
)
async def test_a_straight_answer_that_resembles_a_given_text_has_it_predicted(model, options, sent):
    text = "A line of the letter with its words.\n" * 20
    async with (
        ScriptedServer("Yes.") as server,
        AsyncStretto(model, base_url=server.openai_url, api_key=KEY) as stretto,
    ):
        await stretto.ask(f"Correct the spelling of this text:\n\n{text}", strategy="direct", **options)
        await stretto.ask(f"Translate this text into German:\n\n{text}", strategy="direct", **options)
    corrected, translated = (request.body for request in server.requests)
    assert corrected.get("prediction") == ({"type": "content", "content": text.strip()} if sent else None)
    assert "prediction" not in translated


@pytest.mark.parametrize(
    ("model", "order", "options", "told"),
    [
        ("openai:gpt-4.1", "Correct the spelling of", {}, True),
        ("openai:gpt-5-mini", "Correct the spelling of", {}, False),
        ("openai:gpt-4.1", "Translate into German", {}, False),
        ("openai:gpt-4.1", "Correct the spelling of", {"max_tokens": 5_000}, False),
    ],
)
async def test_the_forecast_counts_what_of_a_prediction_does_not_come_back(model, order, options, told):
    text = "A line of the letter with its words.\n" * 200
    async with AsyncStretto(model, api_key=KEY) as stretto:
        forecast = (await stretto.route(f"{order} this text:\n\n{text}", strategy="direct", **options)).forecast[
            "direct"
        ]
    assert bool(forecast.rejected) == told
    assert forecast.rejected < 0.1 * forecast.written
    if told:
        read = forecast.tokens - forecast.written
        assert forecast.cost == pytest.approx((read * 2 + forecast.written * 8) / 1e6, rel=0.01)


async def test_what_of_a_prediction_was_rejected_is_no_part_of_the_answer():
    details = {"reasoning_tokens": 0, "rejected_prediction_tokens": 7}
    usage = {"prompt_tokens": 9, "completion_tokens": 12, "completion_tokens_details": details}
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    body = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    async with (
        ScriptedServer(RawResponse([*body, b"data: [DONE]\n\n"])) as server,
        AsyncStretto("openai:gpt-4.1", base_url=server.openai_url, api_key=KEY) as stretto,
    ):
        answer = await stretto.ask("Yes or no?", strategy="direct")
    assert (answer.usage.completion_tokens, answer.usage.discarded_tokens) == (12, 7)


async def test_a_prediction_that_is_refused_is_left_out():
    text = "A line of the letter with its words.\n" * 20
    async with (
        ScriptedServer("Yes.", rejects=("prediction",)) as server,
        AsyncStretto("openai:gpt-4o", base_url=server.openai_url, api_key=KEY) as stretto,
    ):
        answer = await stretto.ask(f"Correct the spelling of this text:\n\n{text}", strategy="direct")
    assert answer.text == "Yes."
