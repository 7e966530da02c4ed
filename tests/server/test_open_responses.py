"""Responses against the schemas of Open Responses: the plain cases of its compliance suite, and some more."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from live_server import in_front_of
from plans import plan

from stretto.testing.server import Fault, HttpReply
from stretto.values.tool_calls import ToolCall

pytestmark = pytest.mark.anyio
SCHEMAS = json.loads((Path(__file__).parent / "openresponses" / "schemas.json").read_text())
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
CALL = HttpReply(tool_calls=[ToolCall(id="call_1", name="get_weather", arguments='{"location": "San Francisco"}')])
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def said(role, content):
    return {"type": "message", "role": role, "content": content}


ASKED_WEATHER = {"input": [said("user", "What is the weather in San Francisco?")], "tools": [WEATHER]}
CASES = {
    "basic": ({"input": [said("user", "Say hello in three words.")]}, "Hello to you."),
    "system prompt": ({"input": [said("system", "You are a pirate."), said("user", "Say hello.")]}, "Ahoy."),
    "tool calling": (ASKED_WEATHER, CALL),
    "tool with strict": ({**ASKED_WEATHER, "tools": [{**WEATHER, "strict": True}]}, CALL),
    "text and a tool call": (ASKED_WEATHER, HttpReply("Let me see.", tool_calls=CALL.tool_calls)),
    "image": (
        {
            "input": [
                said(
                    "user",
                    [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}],
                )
            ]
        },
        "A pixel.",
    ),
    "several turns": (
        {"input": [said("user", "I am Alice."), said("assistant", "Hello Alice."), said("user", "Who am I?")]},
        "Alice.",
    ),
    "cut": ({"input": "Count.", "max_output_tokens": 2}, "One two three four."),
    "in sections": ({"input": "Why?", "model": "stretto-skeleton"}, plan("Tyres", "Chain")),
}


def errors(name, value):
    validator = jsonschema_rs.Draft202012Validator({**SCHEMAS, "$ref": f"#/components/schemas/{name}"})
    return [f"{error.instance_path}: {error.message}"[:300] for error in validator.iter_errors(value)]


def schema_of(event):
    """The name of the schema of an event, by its type."""
    for name, schema in SCHEMAS["components"]["schemas"].items():
        if name.endswith("StreamingEvent") and event["type"] in schema["properties"]["type"]["enum"]:
            return name
    raise AssertionError(f"{event['type']} is no event of Open Responses")


def test_the_schemas_refuse_what_is_no_response():
    assert len(errors("ResponseResource", {})) == 31
    assert errors("ResponseOutputTextDeltaStreamingEvent", {"type": "response.created"})


@pytest.mark.parametrize("case", CASES)
async def test_a_response_is_valid(case):
    asked, reply = CASES[case]
    async with in_front_of(reply) as live, live.http() as http:
        got = await http.post("/v1/responses", json={"model": "stretto", **asked})
    response = got.json()
    assert errors("ResponseResource", response) == []
    assert response["status"] == ("incomplete" if case == "cut" else "completed")
    assert ("function_call" in [item["type"] for item in response["output"]]) == ("tool" in case)


@pytest.mark.parametrize("case", CASES)
async def test_every_event_of_a_stream_is_valid(case):
    asked, reply = CASES[case]
    async with in_front_of(reply) as live, live.http() as http:
        got = await http.post("/v1/responses", json={"model": "stretto", "stream": True, **asked})
    events = [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: ")]
    for event in events:
        assert errors(schema_of(event), event) == [], event
    assert [event["response"]["completed_at"] for event in events[:2]] == [None, None]
    assert isinstance(events[-1]["response"]["completed_at"], int)
    if "tool" in case:
        kinds = [event["type"] for event in events]
        assert "response.function_call_arguments.delta" in kinds
        assert "response.function_call_arguments.done" in kinds


async def test_the_event_of_a_stream_that_breaks_is_valid():
    async with (
        in_front_of(HttpReply("One two three four.", fault=Fault("reset", after=2))) as live,
        live.http() as http,
    ):
        got = await http.post("/v1/responses", json={"model": "stretto-direct", "stream": True, "input": "Why?"})
    last = json.loads([line for line in got.text.splitlines() if line.startswith("data: ")][-1][6:])
    assert errors(schema_of(last), last) == []


async def test_fields_that_were_given_come_back(live):
    given = {"presence_penalty": 0.5, "frequency_penalty": 0.25, "prompt_cache_key": "k", "safety_identifier": "s"}
    async with live.http() as http:
        body = {"model": "openai:scripted", "input": "Why?", "top_logprobs": 2, **given}
        response = (await http.post("/v1/responses", json=body)).json()
    assert {name: response[name] for name in (*given, "top_logprobs")} == {**given, "top_logprobs": 2}


async def test_a_websocket_and_compaction_are_refused_by_name(live):
    async with live.http() as http:
        upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        got = await http.get("/v1/responses", headers=upgrade | {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
        assert (got.status_code, got.json()["error"]["code"]) == (426, "websocket_not_supported")
        assert "POST /v1/responses" in got.json()["error"]["message"]
        got = await http.post("/v1/responses/compact", json={"model": "stretto", "input": "Why?"})
        assert (got.status_code, got.json()["error"]["code"]) == (404, "compaction_not_supported")
