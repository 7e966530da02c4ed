"""Schemas before servers that are strict about them: what they take is sent as such, the rest in a way that works."""

import json
from enum import Enum
from typing import Literal, Optional

import pytest
from pydantic import BaseModel, Field, HttpUrl, RootModel, conlist, constr
from strict_servers import flaw, refused_by_anthropic, refused_by_openai

from stretto import AsyncStretto, Budget, Request
from stretto.backends.providers.strict_schemas import strict_form
from stretto.foundation.json_schema import read_format
from stretto.testing.obliging import oblige
from stretto.testing.server import ScriptedServer
from stretto.values.errors import InvalidRequestError, RequestRejectedError
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
PARTLY = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
BOUNDED = {
    "type": "object",
    "properties": {"a": {"type": "integer", "maximum": 5}, "b": {"type": "string", "minLength": 1}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Colour(Enum):
    RED = "red"


class Hero(BaseModel):
    """Somebody."""

    name: str
    friend: Optional["Hero"] = Field(default=None, description="whom they like")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Story(BaseModel):
    title: str = "untitled"
    hero: Hero = Field(description="the hero", examples=[1])
    other: Hero | None = Field(None, description="the other one")
    colour: Colour = Field(Colour.RED, description="of the cover")
    pets: list[Cat | Dog] = Field([], description="in it")
    pet: Cat | Dog = Field(discriminator="kind")


class Bounded(BaseModel):
    short: constr(max_length=3)
    few: conlist(int, max_length=2)
    link: HttpUrl


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def copied(levels):
    """Each definition holds the next one twice, with words beside both."""
    twice = lambda number: [{"$ref": f"#/$defs/d{number}", "description": word} for word in "xy"]  # noqa: E731
    definitions = {f"d{number}": {"anyOf": twice(number + 1)} for number in range(levels)}
    whole = {"properties": {"a": {"anyOf": twice(0)}}, "required": ["a"], "additionalProperties": False}
    return {"type": "object", **whole, "$defs": definitions | {f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize("model", [Story, Hero, Cat])
def test_a_pydantic_model_has_a_strict_form_that_keeps_its_words(model):
    form = strict_form(read_format(model))
    assert flaw(form) == ""
    if model is Story:
        assert form["properties"]["hero"]["description"] == "the hero"
        assert form["properties"]["hero"]["properties"]["friend"]["anyOf"][0] == {"$ref": "#/$defs/Hero"}
        assert form["properties"]["colour"] == {
            "description": "of the cover",
            "enum": ["red"],
            "title": "Colour",
            "type": "string",
        }


def test_a_schema_that_is_strict_already_stays_as_it_is():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"], "maximum": 5},
            "b": {"$ref": "#"},
            "c": {"$ref": "#/$defs/c"},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
        "$defs": {"c": {"type": "array", "items": {"type": "string", "pattern": "^x"}, "maxItems": 3}},
    }
    assert strict_form(schema) == schema


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        PARTLY,
        BOUNDED,
        read_format(Bounded),
        read_format(RootModel[list[int]]),
        {"type": "object"},
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [Cat.model_json_schema()]},
        PARTLY | {"required": ["a", "note", "more"]},
        PARTLY | {"required": ["a", "note"], "additionalProperties": True},
        PARTLY | {"required": ["a", "note"], "minProperties": 1},
        PARTLY | {"properties": {"a": {}}},
        PARTLY | {"properties": {"a": True}},
        PARTLY | {"properties": {"a": {"enum": [1, 2]}}},
        PARTLY | {"properties": {"a": {"type": "array"}}},
        PARTLY | {"properties": {"a": {"type": "string", "format": "uri"}}},
        PARTLY | {"properties": {"a": {"$ref": "#/properties/a"}}},
        PARTLY | {"properties": {"a": {"$ref": "#/$defs/b", "maximum": 3}}, "$defs": {"b": {"type": "integer"}}},
        PARTLY | {"properties": {"a": {"type": "integer", "enum": list(range(1_001))}}},
        PARTLY | {"properties": {"a": {"type": "string", "const": "x" * 120_001}}},
        nested(11),
        copied(40),
    ],
)
def test_a_schema_that_strict_mode_does_not_take_has_no_strict_form(schema):
    assert strict_form(schema) is None


async def asked(received_by, model, *, refuse, said=oblige, **options):
    """The answer of a model whose server refuses by ``refuse``, and what was sent."""
    async with ScriptedServer(said, rejects=refuse) as server:
        url = server.openai_url if model.startswith("openai") else server.url
        async with AsyncStretto(model, base_url=url, api_key="k") as stretto:
            answers = [await stretto.ask("Tell me 3 'things'.", **options) for _ in range(received_by)]
    return answers[-1], [each.body for each in server.requests]


def forms(bodies):
    """Of each request, what it says of its schema: strict or not, or in words only."""
    held = [(body.get("response_format") or {}).get("json_schema") for body in bodies]
    words = ["JSON schema" in json.dumps(body["messages"]) or "JSON" in str(body.get("system")) for body in bodies]
    return [
        "words" if each is None and word else each and each["strict"] for each, word in zip(held, words, strict=True)
    ]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (Story, [True]),
        (Bounded, [False]),
        (OPEN, [False]),
        (PARTLY, [False]),
        ({"type": "json_schema", "json_schema": {"name": "x", "strict": False, "schema": nested(2)}}, [False]),
        ({"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": PARTLY}}, [False]),
        ({"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": nested(2)}}, [True]),
        ({"type": "json_schema", "strict": False, "schema": nested(2)}, [False]),
        (nested(2), [True]),
    ],
)
async def test_a_schema_is_strict_where_strict_mode_takes_it_and_the_caller_lets_it(given, sent):
    _, bodies = await asked(1, "openai:gpt-5.4-mini", refuse=refused_by_openai, response_format=given)
    assert forms(bodies)[:1] == sent


def refusing(strictly):
    """A server that takes the schema in no strict form, or in none at all."""

    def refuse(received):
        held = (received.body.get("response_format") or {}).get("json_schema")
        if held and (strictly is False or held["strict"]):
            message = "Invalid schema for response_format 'answer': In context=(), it is beyond us."
            return 400, {"error": {"message": message, "param": "response_format"}}
        return None

    return refuse


@pytest.mark.parametrize("model", ["openai:gpt-5.4-mini", "openai:llama-99"])
@pytest.mark.parametrize(("strictly", "sent"), [(True, [True, False, False]), (False, [True, False, "words", "words"])])
async def test_a_schema_that_is_refused_is_sent_in_a_way_that_works_and_is_not_refused_again(model, strictly, sent):
    answer, bodies = await asked(
        2, model, refuse=refusing(strictly), said='{"a": {"a": "b"}}', response_format=nested(2)
    )
    assert answer.parsed == {"a": {"a": "b"}}
    assert forms(bodies) == sent


async def test_a_refused_schema_says_nothing_of_another_one():
    def refuse(received):
        return refusing(False)(received) if '"b"' in json.dumps(received.body) else None

    other = nested(1) | {"properties": {"b": {"type": "string"}}, "required": ["b"]}
    async with (
        ScriptedServer(
            lambda received: '{"b": "c"}' if '"b"' in str(received.body) else '{"a": "c"}', rejects=refuse
        ) as server,
        AsyncStretto("openai:gpt-5.4-mini", base_url=server.openai_url, api_key="k") as stretto,
    ):
        await stretto.ask("Tell me a thing.", response_format=other)
        await stretto.ask("Tell me a thing.", response_format=nested(1))
    assert forms([each.body for each in server.requests]) == [True, False, "words", True]


async def test_the_words_for_a_refused_schema_stand_beside_the_callers_own():
    _, bodies = await asked(
        1,
        "openai:gpt-5.4-mini",
        refuse=refusing(False),
        said='{"a": "b"}',
        system="Be kind.",
        response_format=nested(1),
    )
    first, *_, last = [body["messages"] for body in bodies]
    assert first[0]["content"] == "Be kind."
    assert last[0]["content"].startswith("Be kind.\n\n")
    assert json.dumps(nested(1)) in last[0]["content"]
    assert last[1:] == first[1:]


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-4-7", "llama-99"])
async def test_a_schema_that_anthropic_refuses_is_told_in_words(model):
    answer, bodies = await asked(
        2, f"anthropic:{model}", refuse=refused_by_anthropic, said='{"a": 3, "b": "c"}', response_format=BOUNDED
    )
    assert answer.warnings == ()
    assert answer.parsed == {"a": 3, "b": "c"}
    assert ["output_config" in body for body in bodies] == [True, False, False]
    assert all(json.dumps(BOUNDED) in str(body["system"]) for body in bodies[1:])


async def test_the_budget_of_calls_counts_refused_schemas():
    async with (
        ScriptedServer(oblige, rejects=refusing(False)) as server,
        AsyncStretto("openai:gpt-5.4-mini", base_url=server.openai_url, api_key="k") as stretto,
    ):
        with pytest.raises(RequestRejectedError, match="Not sent again without it"):
            await stretto.ask("Hello?", response_format=nested(1), budget=Budget(max_calls=2))
    assert len(server.requests) == 2


TOOL = {"type": "function", "function": {"name": "look", "strict": True, "parameters": Hero.model_json_schema()}}


@pytest.mark.parametrize("model", ["openai:gpt-5.4-mini", "anthropic:claude-haiku-4-5"])
@pytest.mark.parametrize("parameters", [OPEN, PARTLY, Hero.model_json_schema()])
async def test_a_strict_tool_whose_schema_strict_mode_does_not_take_is_offered_as_it_is(model, parameters):
    refuse = refused_by_openai if model.startswith("openai") else refused_by_anthropic
    function = TOOL["function"] | {"parameters": parameters}
    answer, bodies = await asked(2, model, refuse=refuse, tools=[TOOL | {"function": function}])
    assert answer.tool_calls[0].name == "look"
    assert len(bodies) <= 3


async def test_a_strict_tool_is_offered_in_its_strict_form():
    function = TOOL["function"] | {"parameters": read_format(Hero)}
    _, (body,) = await asked(1, "openai:gpt-5.4-mini", refuse=refused_by_openai, tools=[TOOL | {"function": function}])
    sent = body["tools"][0]["function"]
    assert sent["strict"] is True
    assert flaw(sent["parameters"]) == ""


async def test_a_refused_tool_leaves_the_schema_of_the_answer_alone():
    def refuse(received):
        if received.body["tools"][0]["function"].get("strict"):
            return 400, {
                "error": {"message": "Invalid schema for function 'look': strictly none.", "param": "tools[0]"}
            }
        return None

    function = TOOL["function"] | {"parameters": nested(1)}
    _, bodies = await asked(
        1, "openai:gpt-5.4-mini", refuse=refuse, tools=[TOOL | {"function": function}], response_format=nested(1)
    )
    assert forms(bodies) == [True, True]


def test_what_is_said_of_strict_mode_stays_with_a_request():
    given = {"type": "json_schema", "json_schema": {"strict": False, "schema": OPEN}}
    request = Request.of("Hello?", response_format=given)
    assert request.options.response_format == OPEN
    assert Request.of(request, seed=1).options.response_strict is False
    assert Request.of(request, response_format=OPEN).options.response_strict is None
    assert request.options.model_copy(update={"seed": 1}).response_strict is False
    with pytest.raises(InvalidRequestError, match="strict='yes' is neither true nor false"):
        Request.of("Hello?", response_format={"type": "json_schema", "json_schema": {"strict": "yes", "schema": OPEN}})
    assert GenerationOptions(response_format=OPEN).response_strict is None
