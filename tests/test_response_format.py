"""Answers held to a format: what the caller says, and what reaches the backend."""

from typing import Literal

import pytest
from pydantic import BaseModel

from stretto import AsyncStretto, Request
from stretto.backends.base import Capabilities
from stretto.errors import InvalidRequestError
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


class Part(BaseModel):
    name: str = "chain"


class Verdict(BaseModel):
    kind: Literal["good", "bad"]
    stars: int
    parts: list[Part] = []


async def ask(backend, question="Is this bicycle any good?", **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **options)


async def test_a_pydantic_model_reaches_the_backend_as_a_schema_that_allows_nothing_else():
    backend = ScriptedBackend({"": '{"kind": "good", "stars": 5}'}, capabilities=Capabilities(json_schema=True))
    answer = await ask(backend, response_format=Verdict)
    assert Verdict.model_validate_json(answer.text).stars == 5
    schema = backend.calls[0][0].response_schema
    assert schema["properties"] == Verdict.model_json_schema()["properties"]
    assert schema["required"] == ["kind", "stars", "parts"]
    assert schema["$defs"]["Part"]["required"] == ["name"]
    assert schema["additionalProperties"] is schema["$defs"]["Part"]["additionalProperties"] is False


async def test_a_list_that_would_be_written_in_parts_comes_in_one_piece():
    backend = ScriptedBackend({"": "[]"}, capabilities=Capabilities(json_schema=True))
    answer = await ask(backend, "Give me ten tips for looking after a bicycle.", response_format={"type": "array"})
    assert answer.route.strategy == "direct"
    assert len(backend.calls) == 1
    assert backend.calls[0][0].response_schema == {"type": "array"}


@pytest.mark.parametrize(
    ("given", "words"),
    [(Verdict, "is a JSON schema, and .* cannot"), ("[0-9]+", "is a regular expression, and .* cannot")],
)
async def test_a_backend_that_has_no_formats_is_not_asked(given, words):
    backend = ScriptedBackend({"": "5"})
    with pytest.raises(InvalidRequestError, match=words):
        await ask(backend, response_format=given)
    assert backend.calls == []


def test_a_strategy_that_writes_in_parts_is_refused():
    with pytest.raises(InvalidRequestError, match="strategy='skeleton' writes it in parts"):
        Request.of("Why?", response_format=Verdict, strategy="skeleton")


def test_a_request_with_a_format_is_a_value_like_any_other():
    request = Request.of("Why?", response_format=Verdict)
    assert Request.model_validate_json(request.model_dump_json()) == request
    with pytest.raises(InvalidRequestError, match="response_format"):
        Request.of("Why?", response_format=17)
