"""What a model thinks, and what it refuses, reaches clients in the words of the API that they speak."""

import json

import pytest
from live_server import in_front_of
from pydantic import BaseModel

from stretto.testing.server import HttpReply, RawReply
from stretto.tool_calls import ToolCall

pytestmark = pytest.mark.anyio

QUESTION = [{"role": "user", "content": "What is 6 * 7?"}]
NAMES = ["stretto", "scripted"]
FUNCTION = {"name": "add", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
ANTHROPIC_TOOL = {"name": "add", "input_schema": {"type": "object"}}
THINKING = {"type": "enabled", "budget_tokens": 1024}
CALLED = HttpReply("Let me see.", thought="A product.", tool_calls=[ToolCall(id="1", name="add", arguments="{}")])


class City(BaseModel):
    """A city."""

    name: str


def in_front_of_anthropic(script):
    """A server in front of Anthropic's API."""
    return in_front_of(script, provider="anthropic")


def called_once(request):
    """Call the tool, then answer."""
    return HttpReply("42.") if "tool_result" in json.dumps(request.body["messages"]) else CALLED


@pytest.mark.parametrize("model", NAMES)
async def test_reasoning_stands_where_compatible_servers_write_it(model):
    async with in_front_of(HttpReply("42.", thought="A product.")) as live, live.openai() as client:
        whole = await client.chat.completions.create(model=model, messages=QUESTION)
        chunks = [
            chunk async for chunk in await client.chat.completions.create(model=model, messages=QUESTION, stream=True)
        ]
    assert whole.choices[0].message.model_extra["reasoning_content"] == "A product."
    deltas = [chunk.choices[0].delta for chunk in chunks]
    thought = [place for place, delta in enumerate(deltas) if (delta.model_extra or {}).get("reasoning_content")]
    assert [deltas[place].model_extra["reasoning_content"] for place in thought] == ["A product."]
    assert thought[0] < next(place for place, delta in enumerate(deltas) if delta.content)


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_before_a_call_goes_back_with_its_result(stream):
    async with in_front_of(CALLED) as live, live.openai() as client:
        if stream:
            async with client.chat.completions.stream(model="scripted", messages=QUESTION, tools=[TOOL]) as events:
                async for _ in events:
                    pass
                message = (await events.get_final_completion()).choices[0].message
        else:
            answer = await client.chat.completions.create(model="scripted", messages=QUESTION, tools=[TOOL])
            message = answer.choices[0].message
        result = {"role": "tool", "tool_call_id": "1", "content": "42"}
        turns = [*QUESTION, message.model_dump(exclude_none=True), result]
        await client.chat.completions.create(model="scripted", messages=turns, tools=[TOOL])
        sent = live.upstream.requests[-1].body["messages"][1]
    assert sent["reasoning_content"] == "A product."


@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("stream", [False, True])
async def test_signed_thoughts_come_first_and_go_back_as_they_are(model, stream):
    """Anthropic refuses the results of tools without the thoughts before their calls."""
    asked = {"model": model, "max_tokens": 2000, "tools": [ANTHROPIC_TOOL], "thinking": THINKING}
    async with in_front_of_anthropic(called_once) as live, live.anthropic() as client:
        if stream:
            async with client.messages.stream(messages=QUESTION, **asked) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(messages=QUESTION, **asked)
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}
        last = await client.messages.create(
            messages=[*QUESTION, {"role": "assistant", "content": message.content}, result], **asked
        )
        sent = live.upstream.requests[-1].body["messages"][1]["content"]
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert sent[0] == {"type": "thinking", "thinking": "A product.", "signature": "signed"}
    assert last.content[0].text == "42."


@pytest.mark.parametrize("asked", [{}, {"thinking": {"type": "disabled"}}, {"thinking": THINKING}])
@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_of_another_api_are_blocks_for_who_asked_for_thoughts(asked, stream):
    async with in_front_of(HttpReply("42.", thought="A product.")) as live, live.anthropic() as client:
        if stream:
            async with client.messages.stream(model="stretto", max_tokens=2000, messages=QUESTION, **asked) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(model="stretto", max_tokens=2000, messages=QUESTION, **asked)
    shown = ["thinking", "text"] if asked.get("thinking") is THINKING else ["text"]
    assert [block.type for block in message.content] == shown
    assert message.content[-1].text == "42."


@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_breaks_no_client_that_parses(model, stream):
    """The SDK's parsing raises an error where a refusal stands among the text, or ends for another reason than stop."""
    async with in_front_of(HttpReply("I cannot.", finish="refusal")) as live, live.openai() as client:
        asked = {"model": model, "messages": QUESTION, "response_format": City}
        if stream:
            async with client.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                choice = (await events.get_final_completion()).choices[0]
        else:
            choice = (await client.chat.completions.parse(**asked)).choices[0]
    assert (choice.message.parsed, choice.message.refusal, choice.finish_reason) == (None, "I cannot.", "stop")
    assert not choice.message.content


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_a_part_of_its_own_in_responses(stream):
    async with in_front_of(HttpReply("I cannot.", finish="refusal")) as live, live.openai() as client:
        if stream:
            async with client.responses.stream(model="scripted", input="A city?", text_format=City) as events:
                kinds = [event.type async for event in events]
                response = await events.get_final_response()
            assert [kind for kind in kinds if "refusal" in kind][-1] == "response.refusal.done"
        else:
            response = await client.responses.parse(model="scripted", input="A city?", text_format=City)
    assert (response.status, response.output_parsed) == ("completed", None)
    assert response.output[0].content[0].refusal == "I cannot."


async def test_several_refusals_are_told_apart_each():
    reply = HttpReply("One.", choices=[HttpReply("I cannot.", finish="refusal")])
    async with in_front_of(reply) as live, live.openai() as client:
        answer = await client.chat.completions.create(model="stretto", messages=QUESTION, n=2)
    first, second = answer.choices
    assert (first.message.content, first.message.refusal) == ("One.", None)
    assert (second.message.content, second.message.refusal, second.finish_reason) == (None, "I cannot.", "stop")


async def test_what_anthropic_stops_is_filtered_text_for_clients_of_openai():
    async with in_front_of_anthropic(HttpReply("It is", finish="refusal")) as live, live.openai() as client:
        choice = (await client.chat.completions.create(model="stretto", messages=QUESTION)).choices[0]
    assert (choice.message.content, choice.message.refusal, choice.finish_reason) == ("It is", None, "content_filter")


@pytest.mark.parametrize("stream", [False, True])
async def test_the_signature_of_a_call_reaches_the_client(stream):
    """Gemini refuses the result of a tool without it."""
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}, "extra_content": {"a": "b"}}
    said = {"role": "assistant", "tool_calls": [call | {"index": 0}]}
    body = json.dumps({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": said}]}).encode()
    reply = RawReply([b"data: " + body + b"\n\ndata: [DONE]\n\n"])
    async with in_front_of(reply) as live, live.openai() as client:
        asked = {"model": "stretto", "messages": QUESTION, "tools": [TOOL]}
        if stream:
            chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
            (told,) = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or ()]
        else:
            (told,) = (await client.chat.completions.create(**asked)).choices[0].message.tool_calls
    assert told.model_extra == {"extra_content": {"a": "b"}}
    assert told.function.name == "add"
