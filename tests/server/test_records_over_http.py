"""Records field by field for programs that know only OpenAI's API."""

import json

import pytest
from live_server import in_front_of
from pydantic import BaseModel, Field

from stretto.testing.server import ReplyRule

pytestmark = pytest.mark.anyio

ASKED = [{"role": "user", "content": "Describe the harbour town of Vell."}]


class Town(BaseModel):
    name: str
    inhabitants: int
    history: str = Field(description="Two paragraphs")
    sights: str = Field(description="Two paragraphs")
    food: str = Field(description="Two paragraphs")


WHOLE = {"name": "Vell", "inhabitants": 8200, "history": "Old.", "sights": "A pier.", "food": "Fish."}
REPLIES = [
    ReplyRule("only these fields now", json.dumps({"name": "Vell", "inhabitants": 8200})),
    *(
        ReplyRule(f"only the field `{name}` now", json.dumps({name: WHOLE[name]}))
        for name in ("history", "sights", "food")
    ),
]


async def test_openais_sdk_gets_its_class_and_the_way_it_was_written():
    async with in_front_of(REPLIES) as live, live.openai() as client:
        answer = await client.chat.completions.parse(
            model="stretto", messages=ASKED, response_format=Town, extra_body={"stretto": {"preference": "fastest"}}
        )
        named = await client.chat.completions.parse(model="stretto-fields", messages=ASKED, response_format=Town)
        forms = [request.body["response_format"]["json_schema"] for request in live.upstream.requests]
    assert answer.choices[0].message.parsed == named.choices[0].message.parsed == Town(**WHOLE)
    assert answer.model_extra["stretto"]["strategy"] == "fields"
    assert "history, sights, food" in answer.model_extra["stretto"]["route"]["reason"]
    assert [list(form["schema"]["properties"]) for form in forms[1:4]] == [["history"], ["sights"], ["food"]]
    assert all(form["strict"] for form in forms)


async def test_the_record_of_a_response_is_the_class_too():
    async with in_front_of(REPLIES) as live, live.openai() as client:
        said = ASKED[0]["content"]
        response = await client.responses.parse(model="stretto-fields", input=said, text_format=Town)
        async with client.responses.stream(model="stretto-fields", input=said, text_format=Town) as stream:
            pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
    assert response.output_parsed == final.output_parsed == Town(**WHOLE)
    assert json.loads("".join(pieces)) == WHOLE
    assert len(pieces) > 3


async def test_anthropics_sdk_gets_the_record_as_text():
    form = {"type": "json_schema", "schema": Town.model_json_schema() | {"additionalProperties": False}}
    asked = {"model": "stretto-fields", "max_tokens": 4_000, "messages": ASKED, "output_config": {"format": form}}
    async with in_front_of(REPLIES) as live, live.anthropic() as client:
        answer = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            pieces = [text async for text in stream.text_stream]
    assert json.loads(answer.content[0].text) == json.loads("".join(pieces)) == WHOLE
    assert len(pieces) > 3


async def test_openais_sdk_streams_one_json_text():
    async with in_front_of(REPLIES) as live, live.openai() as client:
        opened = client.chat.completions.stream(model="stretto-fields", messages=ASKED, response_format=Town)
        async with opened as stream:
            pieces = [event.delta async for event in stream if event.type == "content.delta"]
            final = await stream.get_final_completion()
    assert json.loads("".join(pieces)) == WHOLE
    assert len(pieces) > 3
    assert final.choices[0].message.parsed == Town(**WHOLE)
