"""Anthropic's Messages over a real port, as Anthropic's own SDK reads them."""

import json

import anthropic
import pytest
from live_server import QUESTION, in_front_of, serving
from test_chat import CALL, IN_SECTIONS

from stretto import AsyncStretto, Settings
from stretto.server import ServerOptions
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import HttpReply
from stretto.values.errors import ServerFailedError
from stretto.values.tool_calls import ToolCall

pytestmark = pytest.mark.anyio
TOOL = {
    "name": "weather",
    "description": "Of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED = {"model": "stretto", "max_tokens": 500, "messages": QUESTION}


async def test_an_answer_is_whole_with_its_usage(live):
    async with live.anthropic() as client:
        answer = await client.messages.create(**ASKED, system="Be brief.")
    assert [(block.type, block.text) for block in answer.content] == [("text", "Hello there, you.")]
    assert (answer.stop_reason, answer.model, answer.role) == ("end_turn", "stretto", "assistant")
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert live.upstream.requests[-1].body["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_stream_gathers_to_the_same(live):
    async with live.anthropic() as client, client.messages.stream(**ASKED) as stream:
        said = [text async for text in stream.text_stream]
        final = await stream.get_final_message()
    assert "".join(said) == final.content[0].text == "Hello there, you."
    assert final.stop_reason == "end_turn"
    assert final.usage.output_tokens > 0
    assert final.usage.input_tokens > 0


async def test_the_events_of_branches_disturb_no_client():
    async with in_front_of(IN_SECTIONS) as live, live.anthropic() as client:
        extra = {"stretto": {"events": True, "strategy": "skeleton"}}
        async with client.messages.stream(**ASKED, extra_body=extra) as stream:
            final = await stream.get_final_message()
    assert final.content[0].text.count("Some words about it.") == 2


async def test_tools_are_called_whole_and_streamed():
    async with in_front_of(CALL) as live, live.anthropic() as client:
        whole = await client.messages.create(**ASKED, tools=[TOOL], tool_choice={"type": "any"})
        async with client.messages.stream(**ASKED, tools=[TOOL]) as stream:
            streamed = await stream.get_final_message()
        sent = live.upstream.requests[0].body
    for answer in (whole, streamed):
        assert answer.stop_reason == "tool_use"
        text, use = answer.content
        assert text.text == "Let me see."
        assert (use.id, use.name, use.input) == ("call_1", "weather", {"city": "Turin"})
    assert sent["tool_choice"] == "required"
    assert sent["tools"][0]["function"]["name"] == "weather"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_stop_sequence_that_ended_an_answer_is_named(provider, stream):
    """OpenAI does not tell which it was, and cuts it off; here the text comes to it."""
    unheeded = provider == "openai"
    reply = HttpReply("One, two, three.")
    async with in_front_of(reply, provider=provider, rejects=["stop"] if unheeded else ()) as live:
        asked = {"model": "stretto-direct", "max_tokens": 99, "messages": QUESTION, "stop_sequences": ["four", "three"]}
        async with live.anthropic() as client:
            if stream:
                async with client.messages.stream(**asked) as events:
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(**asked)
            asked["stop_sequences"] = ["four"]
            whole = await client.messages.create(**asked)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "three")
    assert message.content[0].text.strip() == "One, two,"
    assert (whole.stop_reason, whole.stop_sequence) == ("end_turn", None)


async def test_two_tool_calls_become_two_blocks():
    calls = [ToolCall(id=f"call_{n}", name="weather", arguments=json.dumps({"city": "x" * 40 * n})) for n in (1, 2)]
    async with (
        in_front_of(HttpReply(tool_calls=calls)) as live,
        live.anthropic() as client,
        client.messages.stream(**ASKED, tools=[TOOL]) as stream,
    ):
        answer = await stream.get_final_message()
    assert [(block.id, block.input) for block in answer.content] == [
        ("call_1", {"city": "x" * 40}),
        ("call_2", {"city": "x" * 80}),
    ]


async def test_the_results_of_tools_reach_the_model():
    turns = [
        *QUESTION,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Sun."}]},
    ]
    async with in_front_of("Sunny.") as live, live.anthropic() as client:
        answer = await client.messages.create(model="stretto", max_tokens=50, messages=turns, tools=[TOOL])
        sent = live.upstream.requests[-1].body["messages"]
    assert answer.content[0].text == "Sunny."
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]


async def test_errors_are_anthropics(live):
    async with live.anthropic() as client:
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.messages.create(**ASKED | {"model": "claude-nothing"})
        with pytest.raises(anthropic.BadRequestError) as wrong:
            await client.messages.create(**ASKED, extra_body={"temperature": 3.0})
        with pytest.raises(anthropic.BadRequestError) as unread:
            await client.messages.create(**ASKED | {"messages": [*QUESTION, {"role": "user", "content": 3}]})
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert missing.value.request_id == missing.value.body["request_id"]
    assert wrong.value.body["error"]["message"].startswith("temperature")
    assert unread.value.body["error"]["message"].startswith("messages.1.content")


@pytest.mark.thorough
@pytest.mark.leaping
async def test_a_stream_that_breaks_off_says_the_id_of_its_request():
    fault = Reply(fault=ServerFailedError("It melted."), delay_s=1)
    client = AsyncStretto(ScriptedBackend({"": fault}), settings=Settings(attempts=1))
    async with client, serving(client, ServerOptions(port=0, first_byte_s=0.01)) as live, live.anthropic() as asking:
        async with asking.messages.stream(**ASKED) as stream:
            with pytest.raises(anthropic.APIStatusError) as broken:
                await stream.until_done()
        assert broken.value.body["request_id"] == stream.response.headers["request-id"]


async def test_tokens_are_counted_and_models_listed(live):
    async with live.anthropic() as client:
        counted = await client.messages.count_tokens(model="stretto", messages=QUESTION, system="Be brief.")
        names = [model.id async for model in client.models.list()]
    assert counted.input_tokens > 5
    assert "stretto" in names
