"""Addresses and bodies as clients get them wrong: the error says what was meant, in the form of the API."""

import gzip
import json

import anthropic
import httpx
import openai
import pytest
from live_server import QUESTION, in_front_of
from starlette.applications import Starlette
from starlette.routing import Mount

from stretto import AsyncStretto
from stretto.server import create_app
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

BODY = {"model": "stretto-direct", "messages": QUESTION}


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/openai/deployments/stretto/chat/completions", "/v1/chat/completions"),
        ("/V1/Chat/Completions", "/v1/chat/completions"),
        ("/completions", "/v1/completions"),
        ("/models", "/v1/models"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/messages/count_tokens", "/v1/messages/count_tokens"),
    ],
)
async def test_a_wrong_begin_of_a_path_is_told_with_the_right_one(live, path, meant):
    async with live.http() as http:
        answer = await http.post(path, json=BODY, headers={"x-request-id": "mine"})
    error = answer.json()["error"]
    assert answer.status_code == 404
    assert f"Did you mean {meant}?" in error["message"]
    assert "/v1, those of Anthropic one without it" in error["message"]
    assert answer.headers["x-request-id"] == "mine"
    assert ("request_id" in answer.json()) == ("messages" in path)


async def test_the_sdks_say_what_address_they_should_have(live):
    async with openai.AsyncOpenAI(base_url=live.url, api_key="none", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="Did you mean /v1/chat/completions"):
            await client.chat.completions.create(**BODY)
    async with anthropic.AsyncAnthropic(base_url=live.openai_url, api_key="none", max_retries=0) as client:
        with pytest.raises(anthropic.NotFoundError, match="Did you mean /v1/messages") as wrong:
            await client.messages.create(max_tokens=9, **BODY)
    assert wrong.value.body["error"]["type"] == "not_found_error"
    assert wrong.value.request_id.startswith("req_")


async def test_other_paths_are_not_guessed_at(live):
    async with live.http() as http:
        missing = await http.get("/v1/embeddings")
        wrong = await http.get("/v1/messages")
    assert "Did you mean" not in missing.text
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["type"] == "error"


async def test_a_slash_behind_a_path_changes_nothing(live):
    async with live.http() as http:
        for path in ("/v1/chat/completions/", "/v1/models/", "/health/"):
            asked = http.post(path, json=BODY) if "chat" in path else http.get(path)
            assert (await asked).status_code == 200, path
        assert "<html" in (await http.get("/")).text


async def test_a_slash_behind_a_path_changes_nothing_where_the_app_is_mounted():
    async with AsyncStretto(ScriptedBackend({"": "Hello."})) as stretto:
        outer = Starlette(routes=[Mount("/ai", app=create_app(stretto, environ={}))])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://localhost") as http:
            page = await http.get("/ai/")
            listed = await http.get("/ai/v1/models/")
    assert "<html" in page.text
    assert listed.json()["object"] == "list"


async def test_a_packed_body_is_refused_by_its_packing(live):
    async with live.http() as http:
        packed = gzip.compress(json.dumps(BODY).encode())
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        refused = await http.post("/v1/chat/completions", content=packed, headers=headers)
        plain = await http.post("/v1/chat/completions", json=BODY, headers={"content-encoding": "identity"})
    assert refused.status_code == 415
    assert "content-encoding" in refused.json()["error"]["message"]
    assert plain.status_code == 200


async def test_what_a_chat_has_too_goes_from_completions_to_the_model():
    async with in_front_of() as live, live.openai() as client:
        asked = {"model": "stretto", "prompt": "Why?", "extra_body": {"min_p": 0.1}}
        await client.completions.create(**asked, presence_penalty=0.5, logit_bias={"7": -100}, user="anna", best_of=1)
        sent = live.upstream.requests[0].body
        await client.completions.create(model="stretto", prompt="Why?", presence_penalty=0, best_of=3)
        usual = live.upstream.requests[1].body
    assert (sent["presence_penalty"], sent["logit_bias"], sent["user"]) == (0.5, {"7": -100}, "anna")
    assert sent["min_p"] == 0.1
    assert not {"best_of", "presence_penalty"} & {*usual} | {"best_of"} & {*sent}


@pytest.mark.parametrize("given", [{"prompt": "def f(", "suffix": "return x"}, {"prompt": [1, 2, 3]}])
async def test_completions_that_only_the_models_server_can_write_go_there(given):
    page = {"id": "cmpl-1", "object": "text_completion", "choices": []}
    async with in_front_of(pages={"/v1/completions": page}) as live, live.http() as http:
        answer = await http.post("/v1/completions", json={"model": "stretto", "stretto": {}, "top_k": 5} | given)
        sent = next(each.body for each in live.upstream.inquiries if each.path == "/v1/completions")
    assert answer.json() == page
    assert sent == given | {"model": "scripted", "top_k": 5}
    assert "known to the model's own server only" in answer.headers["x-stretto-route"]
