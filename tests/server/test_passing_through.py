"""What only the model's own server knows is passed through, whichever name that server goes by."""

import json
from contextlib import asynccontextmanager

import pytest
from live_server import QUESTION, serving

from stretto import AsyncStretto, Settings
from stretto.testing import ScriptedBackend
from stretto.testing.server import RawResponse, ScriptedServer

pytestmark = pytest.mark.anyio

ASKED = {"model": "stretto", "messages": QUESTION}

PROVIDERS = ["openai", "ollama", "vllm", "sglang", "llamacpp", "lmstudio"]


@asynccontextmanager
async def in_front(model, **how):
    async with (
        ScriptedServer('{"a": 1}', **how) as upstream,
        AsyncStretto(model, base_url=upstream.openai_url, settings=Settings(attempts=1)) as client,
        serving(client) as live,
        live.http() as http,
    ):
        yield http, upstream


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_formats_and_fields_that_only_its_server_knows_arrive_there(provider):
    form = {"type": "structural_tag", "structures": [], "triggers": ["<a>"]}
    async with in_front(f"{provider}:scripted") as (http, upstream):
        asked = {"messages": QUESTION, "model": f"{provider}:scripted", "response_format": form, "top_k": 5}
        own = await http.post("/v1/chat/completions", json=asked)
        asked |= {"model": "stretto-direct", "response_format": {"type": "json_object"}}
        ours = await http.post("/v1/chat/completions", json=asked)
    assert (own.status_code, ours.status_code) == (200, 200)
    assert [each.body["response_format"] for each in upstream.requests] == [form, {"type": "json_object"}]
    assert [each.body["top_k"] for each in upstream.requests] == [5, 5]


async def test_a_server_without_responses_leaves_the_problem_as_it_is():
    async with in_front("openai:scripted") as (http, _):
        asked = {"model": "stretto", "input": "Why?", "previous_response_id": "resp_1"}
        answer = await http.post("/v1/responses", json=asked)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "previous_response_id")
    assert "keeps no responses" in error["message"]
    assert "There is no /v1/responses here" in error["message"]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_responses_that_only_its_server_knows_are_passed_on(provider):
    async with in_front(f"{provider}:scripted", pages={"/v1/responses": {"id": "resp_2"}}) as (http, upstream):
        asked = {"model": "stretto", "input": "Why?", "previous_response_id": "resp_1"}
        answer = await http.post("/v1/responses", json=asked)
    assert answer.json() == {"id": "resp_2"}
    assert f'"backend": "{provider}:scripted"' in answer.headers["x-stretto-route"]
    sent = next(each.body for each in upstream.inquiries if each.path == "/v1/responses")
    assert sent == {"model": "scripted", "input": "Why?", "previous_response_id": "resp_1"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {"functions": [{"name": "add", "parameters": {"type": "object"}}]},
        {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
        {"web_search_options": {}},
    ],
)
async def test_answers_in_a_form_of_openais_own_come_as_they_are(given, stream):
    """Calls of functions, sound and annotations have no place in an answer of ours."""
    said = {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": "{}"}}
    body = json.dumps({"choices": [{"index": 0, "message": said, "finish_reason": "function_call"}]}).encode()
    kind = "text/event-stream" if stream else "application/json"
    async with (
        ScriptedServer(RawResponse([body], headers={"content-type": kind})) as upstream,
        AsyncStretto("openai:scripted", base_url=upstream.openai_url) as client,
        serving(client) as live,
        live.http() as http,
    ):
        asked = {"model": "stretto-skeleton", "messages": QUESTION, "stream": stream, "top_k": 5} | given
        answer = await http.post("/v1/chat/completions", json=asked | {"stretto": {}})
        routed = await http.post("/v1/route", json=asked | {"model": "stretto"})
    assert answer.content == body
    assert answer.headers["content-type"].startswith(kind)
    assert json.loads(answer.headers["x-stretto-route"])["strategy"] == "direct"
    assert upstream.requests[0].body == asked | {"model": "scripted"}
    assert routed.json()["strategy"] == "direct"


async def test_forms_of_openais_own_are_no_failure_where_nobody_has_them():
    backend = ScriptedBackend({"": "Hello."})
    async with AsyncStretto(backend) as client, serving(client) as live, live.http() as http:
        answer = await http.post("/v1/chat/completions", json=ASKED | {"web_search_options": {}})
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
