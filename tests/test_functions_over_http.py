"""Functions of the caller with OpenAI's and Anthropic's SDK over real HTTP, and in LangChain."""

import asyncio
import json

import anyio
import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from stretto import AsyncStretto, Budget, ToolCall
from stretto.integrations.langchain import ChatStretto
from stretto.testing.server import Fault, HttpReply, RawResponse, ScriptedServer

pytestmark = pytest.mark.anyio

CALLS = [ToolCall(id=f"call_{place}", name="add", arguments=f'{{"a": {place}, "b": 2}}') for place in range(3)]
ASKING = HttpReply("Let me see.", thought="Sums.", tool_calls=CALLS)


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def serving(*replies):
    left = list(replies)
    return ScriptedServer(lambda _: left.pop(0))


def client(server, provider, **options):
    url = server.openai_url if provider == "openai" else server.url
    return AsyncStretto(f"{provider}:some-model", base_url=url, api_key="none", **options)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_all_calls_of_a_turn_are_answered_in_the_form_of_each_api(provider):
    together, begun = anyio.Event(), []

    async def add(a: int, b: int) -> int:
        begun.append(a)
        if len(begun) == len(CALLS):
            together.set()
        await together.wait()  # none of them returns before all are called
        return a + b

    tasks = len(asyncio.all_tasks())
    async with serving(ASKING, "2, 3 and 4.") as server:
        async with client(server, provider) as stretto:
            answer = await stretto.ask("Sums?", tools=[add])
        first, second = (request.body for request in server.requests)
    assert len(asyncio.all_tasks()) == tasks
    assert (answer.text, answer.finish_reason, answer.warnings) == ("Let me see.\n\n2, 3 and 4.", "stop", ())
    assert [branch.kind for branch in answer.branches] == ["direct", "tool", "tool", "tool", "direct"]
    assert first["tools"] == second["tools"]
    turn, *results = second["messages"][1:]
    if provider == "openai":
        assert first["tools"][0]["function"]["name"] == "add"
        assert [call["id"] for call in turn["tool_calls"]] == [call.id for call in CALLS]
        assert [(each["tool_call_id"], each["content"]) for each in results] == [
            *(("call_0", "2"), ("call_1", "3"), ("call_2", "4"))
        ]
    else:
        assert first["tools"][0]["input_schema"]["required"] == ["a", "b"]
        assert [block["type"] for block in turn["content"]] == ["thinking", "text", *["tool_use"] * 3]
        assert turn["content"][0]["signature"] == "signed"
        (result,) = results
        assert [(each["tool_use_id"], each["content"]) for each in result["content"]] == [
            *(("call_0", "2"), ("call_1", "3"), ("call_2", "4"))
        ]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_error_is_a_result_and_the_last_round_calls_nothing(provider):
    def add(a: int, b: int) -> int:
        raise ZeroDivisionError(f"{a} and {b}")

    async with serving(HttpReply(tool_calls=CALLS[:1]), "It cannot be done.") as server:
        async with client(server, provider) as stretto:
            answer = await stretto.ask("Sums?", tools=[add], budget=Budget(max_tool_rounds=1))
        second = server.requests[-1].body
    assert answer.text == "It cannot be done."
    assert "Error: ZeroDivisionError: 0 and 2" in str(second["messages"])
    assert second["tool_choice"] in ("none", {"type": "none"})
    assert ("'is_error': True" in str(second["messages"])) is (provider == "anthropic")


async def test_another_model_goes_on_with_the_results():
    async with (
        serving(HttpReply(tool_calls=CALLS[:1]), "-") as first,
        serving("Two.") as second,
        client(second, "anthropic") as other,
        client(first, "openai", fallback=other.backends["main"]) as stretto,
    ):
        first.script(None, Fault("status", status=404, message="The model some-model does not exist."))
        answer = await stretto.ask("Sums?", tools=[add])
    assert answer.text == "Two."
    assert [branch.model for branch in answer.branches] == ["openai:some-model", "", "anthropic:some-model"]


async def test_langchain_runs_functions_that_are_bound_as_an_option():
    async with serving(ASKING, "2, 3 and 4.") as server:
        chat = ChatStretto(model="openai:some-model", base_url=server.openai_url, api_key="none")
        chunks = [chunk async for chunk in chat.bind(tools=[add]).astream([HumanMessage("Sums?")])]
    message = sum(chunks[1:], chunks[0])
    assert isinstance(message, AIMessageChunk)
    assert (message.text, message.tool_calls) == ("Let me see.\n\n2, 3 and 4.", [])


async def test_langchain_leaves_the_functions_of_bind_tools_to_its_agents():
    async with serving(ASKING) as server:
        chat = ChatStretto(model="openai:some-model", base_url=server.openai_url, api_key="none")
        message = await chat.bind_tools([add]).ainvoke([HumanMessage("Sums?")])
    assert [call["name"] for call in message.tool_calls] == ["add"] * 3


def events(*choices):
    return RawResponse(
        [b"data: " + json.dumps({"choices": [{"index": 0, **each}]}).encode() + b"\n\n" for each in choices]
    )


async def test_each_call_of_a_server_that_numbers_none_is_made_and_thoughts_go_back_as_they_came():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Sums."}]}
    calls = [
        {"id": f"call_{place}", "function": {"name": "add", "arguments": f'{{"a": {place}, "b": 2}}'}}
        for place in (1, 2)
    ]
    asking = events(
        {"delta": {"content": [thought]}},
        *({"delta": {"tool_calls": [call]}} for call in calls),
        {"delta": {"content": ""}, "finish_reason": "stop"},
    )
    async with serving(asking, "3 and 4.") as server, client(server, "openai") as stretto:
        answer = await stretto.ask("Sums?", tools=[add])
    assert (answer.text, answer.finish_reason) == ("3 and 4.", "stop")
    _, turn, *results = server.requests[1].body["messages"]
    assert turn["content"] == [thought]
    assert [(each["tool_call_id"], each["content"]) for each in results] == [("call_1", "3"), ("call_2", "4")]
