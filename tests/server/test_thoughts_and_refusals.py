"""What a model thinks, and what it refuses, reaches clients in the words of the API that they speak."""

import json
from contextlib import asynccontextmanager

import pytest
from live_server import in_front_of, serving
from pydantic import BaseModel

from stretto import AsyncStretto
from stretto.backends.base import Capabilities, Chunk
from stretto.testing import ScriptedBackend
from stretto.testing.server import HttpReply, RawResponse
from stretto.values.answer import Usage
from stretto.values.tool_calls import ToolCall

pytestmark = pytest.mark.anyio

QUESTION = [{"role": "user", "content": "What is 6 * 7?"}]
NAMES = ["stretto", "scripted"]
FUNCTION = {"name": "add", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
ANTHROPIC_TOOL = {"name": "add", "input_schema": {"type": "object"}}
THINKING = {"type": "enabled", "budget_tokens": 1024}
REFUSAL = "I cannot. Sorry."
CALLED = HttpReply("Let me see.", thought="A product.", tool_calls=[ToolCall(id="1", name="add", arguments="{}")])


class City(BaseModel):
    """A city."""

    name: str


class Refusing(ScriptedBackend):
    """Tells the text "I cannot. Sorry." apart as a refusal, as OpenAI's API does."""

    async def _chunks(self, prompt, options, reply):
        if reply.text != REFUSAL:
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk
            return
        yield Chunk("I cannot.", refused=True)
        if reply.hold is not None:
            await reply.hold.wait()
        yield Chunk(" Sorry.", refused=True)
        yield Chunk(usage=Usage(calls=1, prompt_tokens=1, completion_tokens=4), finish_reason="refusal")


@asynccontextmanager
async def in_front_of_backend(script, **able):
    """A server in front of a backend of ours."""
    backend = Refusing(script, capabilities=Capabilities(concurrent_calls=4, **able))
    async with AsyncStretto(backend) as client, serving(client) as live, live.http() as http:
        yield http


async def told(http, body):
    """The first choice of a whole answer, and the same put together from a stream."""
    whole = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]
    fields = {"content": "", "refusal": ""}
    reason = None
    for line in (await http.post("/v1/chat/completions", json=body | {"stream": True})).text.splitlines():
        if line.startswith("data: {"):
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            for name in fields:
                fields[name] += choice["delta"].get(name) or ""
            reason = choice["finish_reason"] or reason
    message = whole["message"]
    return (message["content"], message["refusal"], whole["finish_reason"]), (
        fields["content"] or None,
        fields["refusal"] or None,
        reason,
    )


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
        if stream:  # by a helper of the SDK, whose older versions take strict tools only
            strict = TOOL | {"function": FUNCTION | {"strict": True}}
            async with client.chat.completions.stream(model="scripted", messages=QUESTION, tools=[strict]) as events:
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
    reply = RawResponse([b"data: " + body + b"\n\ndata: [DONE]\n\n"])
    async with in_front_of(reply) as live, live.openai() as client:
        asked = {"model": "stretto", "messages": QUESTION, "tools": [TOOL]}
        if stream:
            chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
            told, *_ = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or ()]
        else:
            (told,) = (await client.chat.completions.create(**asked)).choices[0].message.tool_calls
    assert told.model_extra == {"extra_content": {"a": "b"}}
    assert told.function.name == "add"


async def test_an_answer_that_is_shown_because_its_second_try_was_refused_is_no_refusal():
    tries = ['{"x": 1}', REFUSAL, '{"x": 1}', REFUSAL]
    async with in_front_of_backend({"": tries}, json_schema=True) as http:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
        whole, streamed = await told(http, {"model": "stretto", "messages": QUESTION, "response_format": form})
    assert whole == streamed == ('{"x": 1}', None, "stop")


async def test_a_second_choice_that_is_refused_is_a_refusal_in_the_stream_too():
    reply = HttpReply("One.", choices=[HttpReply("I cannot.", finish="refusal")])
    async with (
        in_front_of(reply) as live,
        live.openai() as client,
        client.chat.completions.stream(model="stretto", messages=QUESTION, n=2) as events,
    ):
        async for _ in events:
            pass
        first, second = (await events.get_final_completion()).choices
    assert (first.message.content, first.message.refusal) == ("One.", None)
    assert (second.message.content, second.message.refusal, second.finish_reason) == ("", "I cannot.", "stop")


def second_try(request):
    """Think and end, and answer when asked again."""
    second_try.asked += 1
    return HttpReply("42.", thought="Second.") if second_try.asked % 2 == 0 else ONLY_THOUGHT


ONLY_THOUGHT = HttpReply("", thought="First.")


async def test_thoughts_of_a_try_that_failed_are_not_told():
    second_try.asked = 0
    async with in_front_of(second_try) as live, live.openai() as client, live.anthropic() as other:
        whole = await client.chat.completions.create(model="stretto", messages=QUESTION)
        asked = {"model": "stretto", "max_tokens": 2000, "messages": QUESTION, "thinking": THINKING}
        async with other.messages.stream(**asked) as events:
            message = await events.get_final_message()
    assert whole.choices[0].message.model_extra["reasoning_content"] == "Second."
    assert [getattr(block, "thinking", None) for block in message.content] == ["Second.", None]


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_alone_are_no_answer(stream):
    async with in_front_of(ONLY_THOUGHT) as live, live.http() as http:
        answer = await http.post(
            "/v1/chat/completions", json={"model": "stretto", "messages": QUESTION, "stream": stream}
        )
    assert answer.status_code == 502
    assert "First." not in answer.text


async def test_unsigned_thoughts_go_back_as_compatible_servers_write_them():
    async with in_front_of(CALLED) as live, live.anthropic() as client:
        asked = {"model": "scripted", "max_tokens": 2000, "tools": [ANTHROPIC_TOOL], "thinking": THINKING}
        message = await client.messages.create(messages=QUESTION, **asked)
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}
        turns = [*QUESTION, {"role": "assistant", "content": message.content}, result]
        await client.messages.create(messages=turns, **asked)
        sent = live.upstream.requests[-1].body["messages"][1]
    assert message.content[0].signature == ""
    assert sent["reasoning_content"] == "A product."
    assert "thinking" not in json.dumps(sent["content"])


async def test_unsigned_thoughts_do_not_go_to_anthropic():
    async with in_front_of_anthropic("42.") as live, live.anthropic() as client:
        unsigned = {"type": "thinking", "thinking": "A product.", "signature": ""}
        said = {"role": "assistant", "content": [unsigned, {"type": "text", "text": "42."}]}
        await client.messages.create(model="scripted", max_tokens=2000, messages=[*QUESTION, said, *QUESTION])
        sent = live.upstream.requests[-1].body["messages"][1]
    assert sent["content"] == [{"type": "text", "text": "42."}]


async def test_a_thought_behind_a_call_stays_behind_it_in_a_stream():
    blocks = [_thinking("One."), _calling("1"), _thinking("Two."), _calling("2")]
    reply = RawResponse([b"".join(_streamed(blocks))])
    async with in_front_of_anthropic(reply) as live, live.anthropic() as client:
        asked = {"model": "stretto", "max_tokens": 2000, "tools": [ANTHROPIC_TOOL], "thinking": THINKING}
        async with client.messages.stream(messages=QUESTION, **asked) as events:
            message = await events.get_final_message()
    got = [getattr(block, "thinking", None) or block.id for block in message.content]
    assert got == ["One.", "1", "Two.", "2"]


def _thinking(text):
    return {"type": "thinking", "thinking": text, "signature": "signed"}


def _calling(number):
    return {"type": "tool_use", "id": number, "name": "add", "input": {"a": number}}


def _streamed(blocks):
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield _event("message_start", message=start | {"stop_reason": None, "stop_sequence": None, "usage": usage})
    for index, block in enumerate(blocks):
        if block["type"] == "thinking":
            empty = block | {"thinking": "", "signature": ""}
            deltas = [{"type": f"{name}_delta", name: block[name]} for name in ("thinking", "signature")]
        else:
            empty = block | {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def _event(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n".encode()
