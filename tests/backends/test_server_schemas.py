"""Answers in a schema from compatible servers: held by the server where it can, else checked here."""

import json

import pytest
from engines import MODEL, llamacpp, lmstudio, sglang, vllm

from stretto import AsyncStretto

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


async def in_form(server, text='{"a": 1}'):
    async with server, AsyncStretto(f"openai:{MODEL}", base_url=server.openai_url) as stretto:
        answers = [await stretto.ask("One?", response_format=SCHEMA) for _ in range(2)]
    assert [answer.text for answer in answers] == [text, text]
    return answers, [received.body for received in server.requests]


@pytest.mark.parametrize("server", [vllm, sglang, llamacpp, lmstudio])
async def test_a_schema_is_held_by_the_server_and_told_in_words(server):
    answers, bodies = await in_form(server('{"a": 1}'))
    assert [body["response_format"]["json_schema"]["schema"] for body in bodies] == [SCHEMA, SCHEMA]
    assert all(json.dumps(SCHEMA) in body["messages"][0]["content"] for body in bodies)
    assert answers[0].warnings == ()


async def test_an_older_vllm_holds_a_schema_by_guided_json():
    answers, bodies = await in_form(vllm('{"a": 1}', old=True))
    assert [body.get("guided_json") for body in bodies] == [None, SCHEMA, SCHEMA]
    assert "response_format" not in bodies[1]
    assert answers[1].warnings == ()


async def test_where_neither_is_taken_the_answer_is_checked_here():
    def refuse(received):
        if "response_format" in received.body or "guided_json" in received.body:
            name = "response_format" if "response_format" in received.body else "guided_json"
            return 400, {"error": {"message": f"{name} is not supported", "type": "BadRequestError", "code": 400}}
        return None

    server = vllm('{"a": 1}')
    server._rejects = refuse
    answers, bodies = await in_form(server)
    assert len(bodies) == 4  # two refusals, then without
    assert [[warning.code for warning in answer.warnings] for answer in answers] == [["option"], ["option"]]


async def test_a_schema_that_a_server_cannot_compile_is_not_held_against_other_schemas():
    odd = {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 3}}}

    def refuse(received):
        if "multipleOf" in json.dumps(received.body.get("response_format", "")):
            said = "The provided JSON schema contains features not supported by xgrammar."
            return 400, {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}}
        return None

    server = vllm('{"a": 3}')
    server._rejects = refuse
    async with server, AsyncStretto(f"vllm:{MODEL}", base_url=server.openai_url) as stretto:
        answer = await stretto.ask("One?", response_format=odd)
        await stretto.ask("One?", response_format=SCHEMA)
    assert answer.text == '{"a": 3}'
    assert [("response_format" in each.body) for each in server.requests] == [True, False, True]
