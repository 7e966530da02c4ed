"""What a ``response_format`` may be, and how what is none is refused before anything is sent."""

from collections.abc import Callable
from types import MappingProxyType

import pytest
from pydantic import BaseModel

from stretto import AsyncStretto, GenerationOptions, Request
from stretto.testing import ScriptedBackend
from stretto.testing.server import ScriptedServer
from stretto.values.errors import InvalidRequestError

KEY = "sk-proj-SECRETSECRET0123456789abcdef"


class City(BaseModel):
    name: str


class Impossible(BaseModel):
    run: Callable[[int], int]


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def circular():
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    return schema


def doubled(levels, keyword="allOf"):
    """Each definition refers twice to the next, so twice as many schemas apply to the same value at each level."""
    definitions = {f"d{at}": {keyword: [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"$defs": definitions | {f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def chained(length):
    links = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(length)}
    return {"$defs": links | {f"d{length}": {}}, "$ref": "#/$defs/d0"}


def read(given):
    return Request.of("Which city?", response_format=given).options.response_format


ENDLESS = "no value that fits it ends: each one must hold another of the same kind. Let that part be left out or"
WRONG = [
    ({"type": 5}, "type=5 is no type of JSON. Those are array, boolean,"),
    ({"type": "strng"}, "type='strng' is no type of JSON"),
    ({"type": ["string", "nil"]}, "type=['string', 'nil'] is no type of JSON"),
    ({"properties": {"a": {"type": "int"}}}, "properties.a.type='int' is no type of JSON"),
    ({"properties": 5}, 'at properties, 5 is not of type "object"'),
    ({"properties": {"type": 5}}, 'at properties.type, 5 is not of types "boolean", "object"'),
    ({"type": "object", "required": "name"}, 'at required, "name" is not of type "array"'),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "type": 5}, "type=5 is no type of JSON"),
    ({"$ref": "#/nowhere"}, "a $ref leads to '/nowhere', which is not in it"),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "a $ref leads to '/$defs/A', which is not in it"),
    ({"$ref": "#anchor"}, "a $ref leads to 'anchor', which is not in it"),
    ({"$ref": "http://127.0.0.1:9/schema"}, "a $ref leads to 'http://127.0.0.1:9/schema', which is not in it"),
    ({"pattern": "(ab"}, "pattern='(ab' is no regular expression"),
    ({"enum": {1, 2}}, "as JSON it is impossible: Object of type set"),
    ({"const": float("nan")}, "as JSON it is impossible: Out of range float"),
    ({"const": "\ud800"}, "as JSON it is impossible"),
    ({5: "x"}, "as JSON it is impossible"),
    (nested(76), "it is nested deeper than 150 levels"),
    (nested(100_000), "it is nested deeper than 150 levels"),
    (circular(), "as JSON it is impossible: Circular reference"),
    (doubled(40), "more than 10,000 schemas apply to one value, by $ref and allOf"),
    (doubled(40, "anyOf"), "more than 10,000 schemas apply to one value"),
    (
        {"type": "array", "items": doubled(40) | {"$defs": {}}, "$defs": doubled(40)["$defs"]},
        "more than 10,000 schemas",
    ),
    (
        {"$ref": "#/$defs/d0", "$defs": doubled(40)["$defs"] | {"d40": {"$ref": "#/$defs/d0"}}},
        "more than 10,000 schemas",
    ),
    ({"$ref": "#"}, ENDLESS),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, ENDLESS),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, ENDLESS),
    ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, ENDLESS),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"$ref": "#"}], "minItems": 2}, ENDLESS),
    ({"type": "object", "additionalProperties": {"$ref": "#"}, "minProperties": 1}, ENDLESS),
    ({"anyOf": [{"$ref": "#"}, {"allOf": [{"type": "object"}, {"$ref": "#"}]}]}, ENDLESS),
    ({"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}, ENDLESS),
    (chained(20_000), "more than 10,000 schemas apply to one value"),
    ({"required": [{"type": "string"}] * 3000}, "at required"),
    ({"type": "json_schema"}, "it has no schema at json_schema.schema"),
    ({"type": "json_schema", "json_schema": "City"}, "it has no schema at json_schema.schema"),
    ({"type": "json_schema", "json_schema": {"schema": {"type": 5}}}, "type=5 is no type of JSON"),
    ({"type": "json_schema", "json_schema": {"schema": {"$ref": "#/x"}}}, "a $ref leads to '/x'"),
    (17, "it is of the type int"),
    (True, "it is of the type bool"),
    ([{"type": "object"}], "it is of the type list"),
    (int, "it is of the type type"),
    (Impossible, "no JSON schema can be made of it. Cannot generate a JsonSchema"),
]


def test_many_references_to_many_schemas_are_counted_once():
    shared = {"anyOf": [{"const": at} for at in range(4_000)]}
    refers = {f"p{at}": {"$ref": "#/$defs/shared/anyOf/3999"} for at in range(4_000)}
    whole = {f"q{at}": {"$ref": "#/$defs/shared"} for at in range(4_000)}
    schema = {"$defs": {"shared": shared}, "properties": refers | whole}
    assert read(schema) == schema


def test_a_schema_may_refer_to_itself_for_the_values_inside():
    tree = {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    assert read(tree) == tree
    for ending in (
        tree | {"required": ["left"]},
        {"type": "object", "properties": {"left": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"$ref": "#"}, "minItems": 1},
        {"properties": {"left": {"$ref": "#"}}, "required": ["left"]},  # a number fits it
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, "type": "object"},  # what is not used may be anything
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    ):
        assert read(ending) == ending
    assert read(doubled(8)) == doubled(8)


@pytest.mark.parametrize(("given", "cause"), WRONG, ids=[str(index) for index in range(len(WRONG))])
def test_what_is_no_schema_is_refused_by_name_with_its_cause_and_what_to_give(given, cause):
    with pytest.raises(InvalidRequestError) as refused:
        read(given)
    message = str(refused.value)
    assert message.startswith("response_format=")
    assert f" cannot be used: {cause}" in message
    assert message.endswith(
        "Give a JSON schema such as {'type': 'object', 'properties': {...}}, or a pydantic model class."
    )
    assert len(message) < 500


def test_a_message_repeats_nothing_that_might_be_a_key():
    for given in (
        {"type": KEY},
        {"minimum": KEY},
        {"$ref": f"#/{KEY}"},
        {"pattern": f"({KEY}"},
        {"properties": {KEY: 5}},
        {"type": "json_schema", "json_schema": KEY},
    ):
        with pytest.raises(InvalidRequestError, match="looks like a key") as refused:
            read(given)
        assert KEY not in str(refused.value)


async def ask_server(server, given):
    async with AsyncStretto("openai:gpt-4.1", base_url=server.openai_url, api_key="k") as stretto:
        return await stretto.ask("Which city?", response_format=given)


@pytest.mark.anyio
async def test_nothing_is_sent_for_what_is_no_schema():
    async with ScriptedServer(lambda _: "{}") as server:
        for given in ({"type": 5}, {"$ref": "#/nowhere"}, {"type": "json_schema"}):
            with pytest.raises(InvalidRequestError, match="cannot be used"):
                await ask_server(server, given)
        assert server.requests == []


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "given",
    [
        SCHEMA,
        MappingProxyType(SCHEMA),
        {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}},
        {"type": "json_schema", "name": "city", "schema": SCHEMA},
    ],
)
async def test_a_schema_may_come_in_openais_forms(given):
    async with ScriptedServer(lambda _: '{"name": "Kyoto"}') as server:
        answer = await ask_server(server, given)
        sent = server.requests[-1].body["response_format"]
    assert answer.parsed == {"name": "Kyoto"}
    assert sent == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": False}}


@pytest.mark.anyio
async def test_openais_json_object_is_any_object_and_its_text_is_no_format():
    backend = ScriptedBackend({"That cannot be used": '{"name": "Kyoto"}', "": "[1]"})
    async with AsyncStretto(backend) as stretto:
        held = await stretto.ask("Which city?", response_format={"type": "json_object"})
        free = await stretto.ask("Which city?", response_format={"type": "text"})
    assert (held.parsed, held.warnings) == ({"name": "Kyoto"}, ())
    assert (free.text, free.parsed) == ("[1]", None)


@pytest.mark.parametrize(
    "given",
    [
        {},
        nested(74),
        {"$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}, "$ref": "#/$defs/A"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$schema": "https://example.org/a-dialect-of-our-own", "type": "object"},
        {"pattern": r"^\d+\Z"},  # of Python's dialect, which some servers know
        {"x-note": "what is not known means nothing"},
    ],
)
def test_what_is_a_schema_is_kept_as_it_is(given):
    assert read(given) == given
    request = Request.of("Which city?", response_format=given)
    assert Request.of(request, seed=1).options.response_format == given
    assert Request.model_validate_json(request.model_dump_json()) == request


def test_options_made_without_a_request_are_checked_too():
    with pytest.raises(ValueError, match="type=5 is no type of JSON"):
        GenerationOptions(response_format={"type": 5})
    assert GenerationOptions(response_format=City).response_format["required"] == ["name"]
