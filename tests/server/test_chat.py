"""Chat Completions over a real port, as OpenAI's own SDK reads them."""

import json

import anyio
import openai
import pytest
from live_server import QUESTION, in_front_of, serving
from plans import plan
from pydantic import BaseModel

from stretto import AsyncStretto
from stretto.extending import Capabilities
from stretto.integrations.langchain import ChatStretto
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import HttpReply, RawResponse, ReplyRule
from stretto.values.tool_calls import ToolCall

pytestmark = pytest.mark.anyio
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,  # the oldest SDK streams no other
    },
}
CALL = HttpReply("Let me see.", tool_calls=[ToolCall(id="call_1", name="weather", arguments='{"city": "Turin"}')])
IN_SECTIONS = [ReplyRule("Write the section", "Some words about it."), ReplyRule("", plan("Tyres", "Chain"))]


class Bicycle(BaseModel):
    gears: int
    bell: bool


async def test_an_answer_is_whole_with_its_usage_and_route(live):
    async with live.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(model="stretto", messages=QUESTION)
    answer = raw.parse()
    assert answer.choices[0].message.content == "Hello there, you."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    assert answer.model == "stretto"
    assert answer.stretto["route"]["backend"] == "openai:scripted"
    assert json.loads(raw.headers["x-stretto-route"])["strategy"] == answer.stretto["route"]["strategy"]
    assert raw.headers["x-request-id"].startswith("req_")


async def test_a_stream_has_the_chunks_in_openais_order(live):
    async with live.http() as http:
        body = {"model": "stretto-direct", "messages": QUESTION, "stream": True}
        body["stream_options"] = {"include_usage": True}
        response = await http.post("/v1/chat/completions", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    first, *middle, end, usage = map(json.loads, lines)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == "Hello there, you."
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in [first, *middle])
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "stop")
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in [first, *middle, end])
    assert {chunk["id"] for chunk in [first, *middle, end, usage]} == {first["id"]}


async def test_the_sections_of_an_answer_are_told_with_heading_form_and_index():
    written = (
        "Opening: Start with the tyres.\nSections: Tyres | Chain\n1. steps, 40 words: air\n2. table, 40 words: oil\n"
    )
    rules = [ReplyRule("Write the section", "Some words about it."), ReplyRule("You plan the answer", written)]
    asked = {"model": "stretto-skeleton", "messages": QUESTION}
    whole = {"status": "finished", "finish_reason": "stop", "error": None, "cut_by": None}
    told = [
        {"id": "section-1", "index": 1, "heading": "Tyres", "form": "steps", **whole},
        {"id": "section-2", "index": 2, "heading": "Chain", "form": "table", **whole},
    ]
    async with in_front_of(rules) as live, live.http() as http:
        whole = (await http.post("/v1/chat/completions", json=asked)).json()
        streamed = await http.post("/v1/chat/completions", json=asked | {"stream": True, "stretto": {"events": True}})
    assert whole["stretto"]["sections"] == told
    lines = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line.startswith("data: {")]
    events = [json.loads(line) for line in lines]
    headings = [each for each in events if each.get("type") == "section_planned"]
    assert [(each["branch_id"], each["index"], each["heading"]) for each in headings] == [
        ("section-1", 1, "Tyres"),
        ("section-2", 2, "Chain"),
    ]
    started = [each for each in events if each.get("type") == "branch_started" and each["kind"] == "section"]
    assert [(each["index"], each["heading"], each["form"]) for each in started] == [
        (1, "Tyres", "steps"),
        (2, "Chain", "table"),
    ]
    assert [each["stretto"]["sections"] for each in events if "sections" in each.get("stretto", {})] == [told]


async def test_the_sections_of_an_answer_are_written_in_parallel():
    async with in_front_of(IN_SECTIONS) as live, live.openai() as client:
        answer = await client.chat.completions.create(model="stretto-skeleton", messages=QUESTION)
    assert answer.choices[0].message.content.count("Some words about it.") == 2
    assert answer.stretto["strategy"] == "skeleton"
    assert answer.stretto["usage"]["calls"] == 3


async def test_the_events_of_branches_come_as_named_events_that_the_sdk_takes_for_empty_chunks():
    asked = {"model": "stretto-skeleton", "messages": QUESTION, "stream": True, "stretto": {"events": True}}
    async with in_front_of(IN_SECTIONS) as live:
        async with live.http() as http:
            text = (await http.post("/v1/chat/completions", json=asked)).text
        async with live.openai() as client:
            chunks = await client.chat.completions.create(
                model="stretto-skeleton", messages=QUESTION, stream=True, extra_body={"stretto": {"events": True}}
            )
            said = [choice.delta.content or "" async for chunk in chunks for choice in chunk.choices]
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert names[0] == "stretto.route_chosen"
    assert names[-1] == "stretto.answer_finished"
    assert {"stretto.section_planned", "stretto.branch_delta", "stretto.branch_finished"} <= set(names)
    assert "".join(said).count("Some words about it.") == 2


@pytest.mark.parametrize(
    ("path", "more"), [("chat/completions", {}), ("messages", {"max_tokens": 9}), ("responses", {})]
)
async def test_who_asks_for_events_is_told_the_route_before_the_first_text(path, more):
    event = anyio.Event()
    asked = {"model": "stretto", "stream": True, "stretto": {"events": True}} | more
    asked |= {"input": "Why?"} if path == "responses" else {"messages": QUESTION}
    async with (
        AsyncStretto(ScriptedBackend({"": Reply("Hello.", hold=event)})) as client,
        serving(client) as live,
        live.http() as http,
        http.stream("POST", f"/v1/{path}", json=asked) as response,
    ):
        async for line in response.aiter_lines():
            if line == "event: stretto.route_chosen":
                event.set()
    assert event.is_set()


async def test_the_sdks_stream_helper_gathers_the_answer(live):
    async with (
        live.openai() as client,
        client.chat.completions.stream(
            model="stretto", messages=QUESTION, stream_options={"include_usage": True}
        ) as it,
    ):
        kinds = [event.type async for event in it]
        final = await it.get_final_completion()
    assert kinds.count("content.delta") >= 1
    assert final.choices[0].message.content == "Hello there, you."
    assert final.usage.prompt_tokens > 0


async def test_tool_calls_pass_through_whole_and_streamed():
    async with in_front_of(CALL) as live, live.openai() as client:
        whole = await client.chat.completions.create(model="stretto", messages=QUESTION, tools=[TOOL])
        async with client.chat.completions.stream(model="stretto", messages=QUESTION, tools=[TOOL]) as stream:
            streamed = await stream.get_final_completion()
        sent = live.upstream.requests[-1].body
    for answer in (whole, streamed):
        assert answer.choices[0].finish_reason == "tool_calls"
        call = answer.choices[0].message.tool_calls[0]
        assert (call.id, call.type, call.function.name) == ("call_1", "function", "weather")
        assert json.loads(call.function.arguments) == {"city": "Turin"}
    assert sent["tools"] == [TOOL]
    assert whole.stretto["route"]["code"] == "whole"


async def test_the_results_of_tools_and_images_reach_the_model():
    turns = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [CALL.tool_calls[0].as_openai()]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sun."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
    ]
    async with in_front_of("Sunny.") as live, live.openai() as client:
        answer = await client.chat.completions.create(model="stretto", messages=turns)
        assert live.upstream.requests[-1].body["messages"] == turns
    assert answer.choices[0].message.content == "Sunny."


async def test_several_choices_are_streamed_side_by_side():
    async with in_front_of(HttpReply("One.", choices=["Two."])) as live, live.openai() as client:
        whole = await client.chat.completions.create(model="stretto", messages=QUESTION, n=2)
        async with client.chat.completions.stream(model="stretto", messages=QUESTION, n=2) as stream:
            streamed = await stream.get_final_completion()
    for answer in (whole, streamed):
        assert [choice.message.content for choice in answer.choices] == ["One.", "Two."]
        assert [choice.finish_reason for choice in answer.choices] == ["stop", "stop"]


async def test_an_answer_is_parsed_into_a_model():
    async with in_front_of('{"gears": 21, "bell": true}') as live, live.openai() as client:
        answer = await client.chat.completions.parse(model="stretto", messages=QUESTION, response_format=Bicycle)
        form = live.upstream.requests[-1].body["response_format"]
    assert answer.choices[0].message.parsed == Bicycle(gears=21, bell=True)
    assert form["json_schema"]["schema"]["properties"].keys() == {"gears", "bell"}


async def test_a_schema_goes_before_the_parts_in_a_models_name():
    backend = ScriptedBackend({"": '{"gears": 21, "bell": true}'}, capabilities=Capabilities(json_schema=True))
    async with AsyncStretto(backend) as stretto, serving(stretto) as live, live.openai() as client:
        asked = {"model": "stretto-skeleton", "messages": QUESTION, "response_format": Bicycle}
        answer = await client.chat.completions.parse(**asked)
        response = await client.responses.parse(model="stretto-items", input="How many?", text_format=Bicycle)
    assert answer.choices[0].message.parsed == response.output_parsed == Bicycle(gears=21, bell=True)
    route = answer.model_extra["stretto"]["route"]
    assert (route["strategy"], route["code"], "18 tokens" in route["reason"]) == ("direct", "shape", True)


PARTLY = {
    "type": "object",
    "properties": {"gears": {"type": "integer"}, "bell": {"type": "boolean"}},
    "required": ["gears"],
    "additionalProperties": False,
}
CLOSED = PARTLY | {"required": ["gears", "bell"]}


def unable(received):
    """A server that takes no schema of an answer, however strict."""
    if "response_format" not in received.body:
        return None
    return 400, {"error": {"message": "Invalid schema for response_format 'answer': it is beyond us."}}


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("schema", "strict", "sent"), [(CLOSED, True, True), (CLOSED, False, False), (PARTLY, True, False)]
)
async def test_a_schema_is_as_strict_as_the_client_says_where_it_can_be(api, schema, strict, sent):
    held = {"name": "bicycle", "strict": strict, "schema": schema}
    async with in_front_of('{"gears": 21, "bell": true}') as live, live.openai() as client:
        if api == "chat":
            form = {"type": "json_schema", "json_schema": held}
            await client.chat.completions.create(model="stretto", messages=QUESTION, response_format=form)
        else:
            form = {"type": "json_schema", **held}
            await client.responses.create(model="stretto", input="How many?", text={"format": form})
        assert live.upstream.requests[-1].body["response_format"]["json_schema"]["strict"] is sent


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_that_the_models_server_refuses_is_told_in_words(stream):
    form = {"type": "json_schema", "json_schema": {"name": "bicycle", "strict": True, "schema": CLOSED}}
    said = '```json\n{"gears": 21, "bell": true}\n```'
    async with in_front_of(said, rejects=unable) as live, live.openai() as client:
        answer = await client.chat.completions.create(
            model="stretto", messages=QUESTION, response_format=form, stream=stream
        )
        text = "".join([each.choices[0].delta.content or "" async for each in answer if each.choices]) if stream else ""
        assert json.loads(text or answer.choices[0].message.content) == {"gears": 21, "bell": True}
        assert json.dumps(CLOSED) in live.upstream.requests[-1].prompt


async def test_json_objects_are_asked_for_in_openais_own_words():
    async with in_front_of('{"gears": 21}') as live, live.openai() as client:
        answer = await client.chat.completions.create(
            model="stretto", messages=QUESTION, response_format={"type": "json_object"}
        )
        assert live.upstream.requests[-1].body["response_format"] == {"type": "json_object"}
    assert json.loads(answer.choices[0].message.content) == {"gears": 21}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_that_is_none_is_refused_before_anything_is_sent(stream):
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": 5}}}
    backend = ScriptedBackend({"": "5"}, capabilities=Capabilities(json_schema=True))
    async with AsyncStretto(backend) as stretto, serving(stretto) as live, live.openai() as client:
        with pytest.raises(openai.BadRequestError, match="type=5 is no type of JSON"):
            await client.chat.completions.create(
                model="stretto", messages=QUESTION, response_format=form, stream=stream
            )
    assert backend.calls == []


@pytest.mark.thorough
async def test_a_schema_that_no_value_fits_is_the_clients_fault_on_a_local_model_too():
    async with AsyncStretto("local:pocket") as stretto, serving(stretto) as live, live.openai() as client:
        for schema, cause in (({"$ref": "#"}, "no value that fits it ends"), ({"enum": []}, "cannot be used")):
            form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
            with pytest.raises(openai.BadRequestError, match=cause):
                await client.chat.completions.create(model="stretto", messages=QUESTION, response_format=form)


async def test_log_probabilities_come_with_the_end_of_the_stream(live):
    async with live.openai() as client:
        whole = await client.chat.completions.create(model="stretto", messages=QUESTION, logprobs=True, top_logprobs=2)
        async with client.chat.completions.stream(
            model="stretto", messages=QUESTION, logprobs=True, top_logprobs=2
        ) as stream:
            streamed = await stream.get_final_completion()
    for answer in (whole, streamed):
        told = answer.choices[0].logprobs.content
        assert "".join(each.token for each in told) == "Hello there, you."
        assert all(len(each.top_logprobs) == 2 for each in told)


async def test_unknown_fields_go_to_the_model_and_usual_ones_stop_no_parallel_answer():
    async with in_front_of(IN_SECTIONS) as live, live.openai() as client:
        await client.chat.completions.create(
            model="stretto", messages=QUESTION, extra_body={"top_k": 4, "brand_new": [1]}
        )
        assert live.upstream.requests[-1].body["brand_new"] == [1]
        answer = await client.chat.completions.create(
            model="stretto", messages=QUESTION, frequency_penalty=0, presence_penalty=0, n=1, user="me"
        )
        assert "frequency_penalty" not in live.upstream.requests[-1].body
    assert answer.stretto["route"]["strategy"] in ("direct", "skeleton")


async def test_a_backends_own_name_is_passed_on_as_it_is(live):
    async with live.openai() as client:
        for name in ("openai:scripted", "scripted"):
            answer = await client.chat.completions.create(model=name, messages=QUESTION, frequency_penalty=0)
            sent = live.upstream.requests[-1].body
            assert (answer.model, answer.stretto["route"]["strategy"]) == ("scripted", "direct")
            assert (sent["model"], sent["frequency_penalty"]) == ("scripted", 0)


async def test_what_stretto_alone_knows_is_told_in_a_field_of_its_own():
    told = {"strategy": "direct", "documents": [{"title": "note.txt", "text": "The saddle is blue."}], "deadline_s": 9}
    async with in_front_of("Blue.") as live, live.openai() as client:
        answer = await client.chat.completions.create(model="stretto", messages=QUESTION, extra_body={"stretto": told})
        assert "The saddle is blue." in live.upstream.requests[-1].prompt
        assert "stretto" not in live.upstream.requests[-1].body
    assert answer.stretto["route"]["strategy"] == "direct"


async def test_a_route_is_told_without_an_answer(live):
    async with live.http() as http:
        route = (await http.post("/v1/route", json={"model": "stretto", "messages": QUESTION})).json()
    assert route["strategy"] in ("skeleton", "direct")
    assert route["reason"]
    assert live.upstream.requests == []


async def test_models_are_listed_and_found_one_by_one(live):
    async with live.openai() as client:
        names = [model.id async for model in await client.models.list()]
        one = await client.models.retrieve("stretto-skeleton:openai:scripted")
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-nothing")
    assert {"stretto", "stretto-direct", "stretto-items", "stretto-document", "stretto:openai:scripted"} <= set(names)
    assert one.id in names


def spoken(choices):
    return "".join(each["token"] for choice in choices if choice["logprobs"] for each in choice["logprobs"]["content"])


SCORED = [
    {"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []} for token in ("Hello", " there", ",", " you.")
]


def scored_reply(_):
    """A stream whose chunks have log-probabilities, as OpenAI sends them."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m-2026"}
    chunks = [
        {"index": 0, "delta": {"content": each["token"]}, "logprobs": {"content": [each]}, "finish_reason": None}
        for each in SCORED
    ]
    chunks.append({"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"})
    events = [b"data: " + json.dumps(head | {"choices": [chunk]}).encode() + b"\n\n" for chunk in chunks]
    return RawResponse([*events, b"data: [DONE]\n\n"])


async def test_log_probabilities_come_with_the_content_that_they_belong_to():
    async with in_front_of(scored_reply) as live, live.http() as http:
        asked = {"model": "stretto-direct", "messages": QUESTION, "stream": True, "logprobs": True}
        text = (await http.post("/v1/chat/completions", json=asked)).text
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    said = [choice for choice in choices if choice["delta"].get("content")]
    assert [spoken([choice]) for choice in said] == [choice["delta"]["content"] for choice in said]
    assert spoken(choices) == "Hello there, you."
    assert choices[-1]["logprobs"] is None


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses"])
async def test_the_other_apis_stream_log_probabilities_with_their_text(path):
    async with in_front_of(scored_reply) as live, live.http() as http:
        asked = {"model": "stretto-direct", "stream": True}
        asked |= {"prompt": "Why?", "logprobs": 0} if "completions" in path else {"input": "Why?", "top_logprobs": 0}
        text = (await http.post(path, json=asked)).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if "completions" in path:
        choices = [choice for event in events for choice in event["choices"]]
        pairs = [("".join(choice["logprobs"]["tokens"]), choice["text"]) for choice in choices if choice["logprobs"]]
        offsets = [at for choice in choices if choice["logprobs"] for at in choice["logprobs"]["text_offset"]]
        assert offsets == [0, 5, 11, 12]
    else:
        deltas = [event for event in events if event["type"] == "response.output_text.delta"]
        pairs = [("".join(each["token"] for each in event["logprobs"]), event["delta"]) for event in deltas]
    assert "".join(tokens for tokens, _ in pairs) == "Hello there, you."
    assert all(tokens == text for tokens, text in pairs)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_local_answer_has_the_same_log_probabilities_streamed_and_whole(stream):
    async with AsyncStretto("local:pocket") as client, serving(client) as live, live.openai() as sdk:
        asked = {"model": "stretto-direct", "messages": QUESTION, "max_tokens": 8, "temperature": 0, "logprobs": True}
        if stream:
            choices = [chunk.choices[0] async for chunk in await sdk.chat.completions.create(**asked, stream=True)]
            content = [each for choice in choices if choice.logprobs for each in choice.logprobs.content]
            assert sum(bool(choice.logprobs) for choice in choices) > 1
        else:
            content = (await sdk.chat.completions.create(**asked)).choices[0].logprobs.content
    assert len(content) == 8


async def test_a_stream_that_begins_with_a_tool_call_has_no_content():
    call = HttpReply(tool_calls=CALL.tool_calls)
    async with in_front_of(call) as live, live.openai() as client:
        stream = await client.chat.completions.create(model="stretto", messages=QUESTION, tools=[TOOL], stream=True)
        deltas = [choice.delta async for chunk in stream for choice in chunk.choices]
    assert (deltas[0].role, deltas[0].content) == ("assistant", None)
    assert [delta.content for delta in deltas if delta.content is not None] == []
    assert deltas[1].tool_calls[0].function.name == "weather"


CITED = {"type": "url_citation", "url_citation": {"url": "https://example.com", "title": "x", "start_index": 0}}


def marked_reply(_):
    """An answer with the fields that only its server knows."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m-2026"}
    head |= {"system_fingerprint": "fp_1", "service_tier": "flex"}
    deltas = [{"content": "Hello."}, {"annotations": [CITED]}, {}]
    ends = [None, None, "stop"]
    choices = [{"index": 0, "delta": delta, "finish_reason": end} for delta, end in zip(deltas, ends, strict=True)]
    events = [b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n" for choice in choices]
    return RawResponse([*events, b"data: [DONE]\n\n"])


@pytest.mark.parametrize(("model", "own"), [("openai:scripted", True), ("stretto-direct", False)])
async def test_under_its_own_name_the_fields_of_a_backend_come_back(model, own):
    async with in_front_of(marked_reply) as live, live.http() as http:
        asked = {"model": model, "messages": QUESTION}
        whole = (await http.post("/v1/chat/completions", json=asked)).json()
        text = (await http.post("/v1/chat/completions", json=asked | {"stream": True})).text
    last = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")][-1]
    for found, said in ((whole, whole["choices"][0]["message"]), (last, last["choices"][0]["delta"])):
        assert found["model"] == ("m-2026" if own else model)
        assert found.get("system_fingerprint") == ("fp_1" if own else None)
        assert found.get("service_tier") == ("flex" if own else None)
        assert said.get("annotations") == ([CITED] if own else None)


async def test_a_call_that_was_written_as_text_reaches_clients_as_one():
    call = '{"name": "weather", "arguments": {"place": "Bergen"}}'
    weather = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    async with in_front_of(f"```json\n{call}\n```") as live:
        async with live.openai() as client:
            asked = {"model": "stretto-direct", "tools": [weather], "messages": [{"role": "user", "content": "Rain?"}]}
            (choice,) = (await client.chat.completions.create(**asked)).choices
            assert (choice.finish_reason, choice.message.tool_calls[0].function.name) == ("tool_calls", "weather")
            deltas = [
                choice.delta
                async for chunk in await client.chat.completions.create(**asked, stream=True)
                for choice in chunk.choices
            ]
            assert "".join(delta.content or "" for delta in deltas) == ""
            assert [call.function.name for delta in deltas for call in delta.tool_calls or ()] == ["weather"]
        chat = ChatStretto(model="openai:scripted", base_url=live.upstream.openai_url).bind_tools([weather])
        message = await chat.ainvoke("Rain?")
        assert [call["args"] for call in message.tool_calls] == [{"place": "Bergen"}]
