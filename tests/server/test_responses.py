"""Responses and the older Completions over a real port, as OpenAI's own SDK reads them."""

import json
from contextlib import asynccontextmanager

import anyio
import openai
import pytest
import uvicorn
from live_server import QUESTION, in_front_of, serving
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from test_chat import CALL, IN_SECTIONS

from stretto import AsyncStretto
from stretto.server import ServerOptions
from stretto.server.running import listening
from stretto.testing import ScriptedBackend
from stretto.testing.server import ReplyRule

pytestmark = pytest.mark.anyio
TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


class Bicycle(BaseModel):
    gears: int


async def test_a_response_is_whole(live):
    async with live.openai() as client:
        response = await client.responses.create(model="stretto", input="Why?", instructions="Be brief.")
    assert response.output_text == "Hello there, you."
    assert (response.status, response.output[0].type) == ("completed", "message")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    roles = [message["role"] for message in live.upstream.requests[-1].body["messages"]]
    assert roles == ["system", "user"]


async def test_a_stream_has_its_events_in_order(live):
    async with live.openai() as client:
        events = [event async for event in await client.responses.create(model="stretto", input="Why?", stream=True)]
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type.endswith("text.delta")) == "Hello there, you."
    assert events[-1].response.output_text == "Hello there, you."


async def test_the_sdks_helper_gathers_a_stream_with_the_events_of_branches():
    async with in_front_of(IN_SECTIONS) as live, live.openai() as client:
        extra = {"stretto": {"events": True}}
        async with client.responses.stream(model="stretto-skeleton", input="How?", extra_body=extra) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert "response.output_text.delta" in kinds
    assert final.output_text.count("Some words about it.") == 2


async def test_functions_are_called_and_their_results_go_back():
    script = [ReplyRule("Sun\\.", "Sunny."), ReplyRule("", CALL)]
    async with in_front_of(script) as live, live.openai() as client:
        whole = await client.responses.create(model="stretto", input=QUESTION, tools=[TOOL])
        async with client.responses.stream(model="stretto", input=QUESTION, tools=[TOOL]) as stream:
            streamed = await stream.get_final_response()
        for response in (whole, streamed):
            call = next(item for item in response.output if item.type == "function_call")
            assert (call.call_id, call.name, json.loads(call.arguments)) == ("call_1", "weather", {"city": "Turin"})
        result = {"type": "function_call_output", "call_id": "call_1", "output": "Sun."}
        back = [*QUESTION, *(item.model_dump(exclude_none=True) for item in whole.output), result]
        last = await client.responses.create(model="stretto", input=back, tools=[TOOL])
        sent = live.upstream.requests[-1].body["messages"]
    assert last.output_text == "Sunny."
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == "call_1"


async def test_a_response_is_parsed_into_a_model():
    async with in_front_of('{"gears": 21}') as live, live.openai() as client:
        response = await client.responses.parse(model="stretto", input="How many?", text_format=Bicycle)
    assert response.output_parsed == Bicycle(gears=21)


async def test_an_answer_that_was_cut_is_incomplete():
    async with in_front_of("One two three four five six.") as live, live.openai() as client:
        response = await client.responses.create(model="stretto-direct", input="Count.", max_output_tokens=2)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0.type"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"input": [{"role": "user", "content": [{"type": ["text"]}]}]}, "input.0.content"),
        ({"input": [*QUESTION, {"role": "king", "content": "Why?"}]}, "input.1.role"),
        ({"input": []}, "input"),
    ],
)
async def test_what_only_openai_knows_is_named_where_nobody_else_knows_it(given, named):
    async with (
        AsyncStretto(ScriptedBackend({"": "Hello."})) as stretto,
        serving(stretto) as live,
        live.openai() as client,
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.responses.create(**{"model": "stretto", "input": "Why?"} | given)
    assert wrong.value.param == named


@asynccontextmanager
async def with_responses(received):
    """A server with its own Responses; gives its address."""

    async def respond(request):
        received.append(await request.json())
        if received[-1].get("previous_response_id") == "resp_gone":
            return JSONResponse({"error": {"message": "There is no resp_gone.", "type": "x"}}, 400)
        if received[-1].get("stream"):
            return Response(b"event: x\ndata: {}\n\n", media_type="text/event-stream")
        return JSONResponse({"id": "resp_2"})

    app = Starlette(routes=[Route("/v1/responses", respond, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_config=None))
    with listening(ServerOptions(port=0)) as opened:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [opened])
            yield f"http://127.0.0.1:{opened.getsockname()[1]}/v1"
            server.should_exit = True


async def test_what_only_openai_knows_goes_there_as_it_is():
    received = []
    async with (
        with_responses(received) as url,
        AsyncStretto("openai:gpt-5", base_url=url) as stretto,
        serving(stretto) as live,
        live.http() as http,
    ):
        asked = {"model": "stretto", "input": "Why?", "previous_response_id": "resp_1"}
        whole = await http.post("/v1/responses", json=asked | {"stretto": {}})
        streamed = await http.post("/v1/responses", json=asked | {"stream": True})
        refused = await http.post("/v1/responses", json=asked | {"previous_response_id": "resp_gone"})
    assert whole.json() == {"id": "resp_2"}
    assert "previous_response_id" in whole.headers["x-stretto-route"]
    assert streamed.content == b"event: x\ndata: {}\n\n"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert (refused.status_code, "resp_gone" in refused.json()["error"]["message"]) == (400, True)
    assert received[0] == asked | {"model": "gpt-5"}


async def test_completions_answer_several_prompts_each_by_its_index():
    async with in_front_of([ReplyRule("cat", "Meow."), ReplyRule("dog", "Woof.")]) as live, live.openai() as client:
        asked = {"model": "stretto-direct", "prompt": ["A cat says", "A dog says"], "echo": True}
        whole = await client.completions.create(**asked)
        said = {0: "", 1: ""}
        ends = {}
        async for chunk in await client.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                said[choice.index] += choice.text
                ends[choice.index] = choice.finish_reason
    assert [choice.text for choice in whole.choices] == ["A cat saysMeow.", "A dog saysWoof."]
    assert whole.usage.prompt_tokens > 0
    assert said == {0: "A cat saysMeow.", 1: "A dog saysWoof."}
    assert ends == {0: "stop", 1: "stop"}


async def test_one_completion_that_fails_ends_all_with_one_error():
    script = [ReplyRule("cat", "Meow."), ReplyRule("dog", "Woof.")]
    async with in_front_of(script, key="sk-right-0123456789") as live, live.openai() as client:
        with pytest.raises(openai.InternalServerError) as failed:  # the server has no key for its model
            await client.completions.create(model="stretto-direct", prompt=["A cat says", "A dog says"])
    assert failed.value.code == "backend_authentication"


async def test_completions_refuse_tokens_and_suffixes(live):
    async with live.openai() as client:
        for given, named in (({"prompt": [1, 2]}, "prompt"), ({"prompt": "a", "suffix": "b"}, "suffix")):
            with pytest.raises(openai.BadRequestError) as wrong:
                await client.completions.create(model="stretto", **given)
            assert wrong.value.param == named
