"""Whatever the schema: a record field by field is as valid as one in one piece, and holds the same."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto import Stretto
from stretto.backends.base import Capabilities
from stretto.foundation.json_schema import validator_of
from stretto.router.schema_tokens import resolved
from stretto.strategies.fields.record_plan import NotSplit, record_of
from stretto.strategies.fields.value_text import TextOfField
from stretto.testing import ScriptedBackend
from stretto.values.partial_values import path_of

SUITE = Path(__file__).parents[2] / "benchmarks" / "schema_suite" / "draft2020-12.jsonl"
NAMES = st.sampled_from(["title", "body", "a b", "x.y", 'q"', "history", "Ü", "tags[0]", "$ref2", "summary", ""])
LONG = "Two paragraphs on it, at length."


def with_values(schemas, values):
    return st.tuples(schemas, values)


def leaves():
    texts = st.text(max_size=30)
    return st.one_of(
        with_values(st.just({"type": "string", "description": LONG}), texts),
        with_values(st.just({"type": "string", "maxLength": 40}), texts),
        with_values(st.just({"type": "integer"}), st.integers(-9, 9)),
        with_values(st.just({"enum": ["one", 2, None]}), st.sampled_from(["one", 2, None])),
        with_values(st.just({"anyOf": [{"type": "string", "description": LONG}, {"type": "null"}]}), st.none() | texts),
        with_values(st.just({"type": ["array", "null"], "items": {"type": "string"}}), st.none() | st.lists(texts)),
        with_values(st.just({"$ref": "#/$defs/text"}), texts),
    )


@st.composite
def objects(draw, inner):
    fields = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=5))
    schema = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in fields.items()},
        "required": [name for name in fields if draw(st.booleans())],
        **draw(st.sampled_from([{}, {"additionalProperties": False}])),
    }
    return schema, {name: value for name, (_, value) in fields.items()}


@st.composite
def arrays(draw):
    schema, _ = draw(objects(leaves()))
    names = schema["properties"]
    values = [
        {name: draw(st.just(example(part))) for name, part in names.items()} for _ in range(draw(st.integers(0, 3)))
    ]
    return {"type": "array", "items": schema}, values


def example(schema):
    if "$ref" in schema or schema.get("type") == "string" or "anyOf" in schema:
        return "Some text."
    return schema["enum"][0] if "enum" in schema else 3 if schema["type"] == "integer" else []


def records():
    return objects(st.one_of(leaves(), objects(leaves()), arrays()))


def pruned(value, schema, whole):
    """Of a value, what a part of its schema asks for."""
    schema = resolved(schema, whole)
    if isinstance(schema, dict) and isinstance(value, dict) and "properties" in schema:
        return {name: pruned(value[name], part, whole) for name, part in schema["properties"].items() if name in value}
    if isinstance(schema, dict) and isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [pruned(each, schema["items"], whole) for each in value]
    return value


def knowing(value):
    """A backend that knows the record, and says of it what it is asked for."""

    def reply(prompt):
        asked, schema, found = prompt.messages[-1].content, prompt.response_schema, value
        if element := re.search(r"only element (\d+) of `(.*)` now, the one with", asked):
            for step in (*path_of(element[2]), int(element[1]) - 1):
                found = found[step]
        elif field := re.search(r"only the field `(.*)` now", asked):
            *above, _ = path_of(field[1])
            for step in above:
                found = found[step]
        return json.dumps(pruned(found, schema, schema))

    return ScriptedBackend(reply, capabilities=Capabilities(json_schema=True))


def written(schema, value, strategy):
    with Stretto(knowing(value)) as stretto:
        return stretto.ask("Fill it in.", response_format=schema, strategy=strategy)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(records())
def test_a_record_is_as_valid_as_in_one_piece(record):
    schema, value = record
    schema = {**schema, "$defs": {"text": {"type": "string", "description": LONG}}}
    fields, straight = (written(schema, value, strategy) for strategy in ("fields", "direct"))
    assert json.loads(fields.text) == json.loads(straight.text) == fields.parsed == straight.parsed
    assert list(json.loads(fields.text)) == [name for name in schema["properties"] if name in value]


def suite():
    for line in SUITE.read_text().splitlines():
        case = json.loads(line)
        for instance in case.get("tests", case.get("instances", ())):
            data, fits = (instance["data"], instance["valid"]) if isinstance(instance, dict) else instance
            if fits and isinstance(data, dict) and not isinstance(record_of(case["schema"], apart=True), NotSplit):
                yield case["schema"], data


def test_instances_of_the_schema_test_suite_stay_valid():
    cases = list(suite())
    assert len(cases) > 10
    for schema, data in cases:
        plan = record_of(schema, apart=True)
        declared = {name: data[name] for name in plan.order() if name in data}
        if validator_of(schema).is_valid(declared):
            assert written(schema, declared, "fields").parsed == written(schema, declared, "direct").parsed == declared


@given(st.text(), st.lists(st.integers(1, 7), max_size=30))
def test_a_text_that_is_shown_while_it_comes_is_what_json_holds_however_it_is_cut(text, cuts):
    said = json.dumps({"body": text}, ensure_ascii=len(text) % 2 == 0)
    shown, at, reader = "", 0, TextOfField("body")
    for cut in [*cuts, len(said)]:
        shown += reader.feed(said[at : at + cut])
        json.loads(f'"{shown}"')
        at += cut
    shown += reader.finish()
    assert json.loads(f'"{shown}"') == text.encode("utf-16", "replace").decode("utf-16")
    assert reader.closed


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_text_that_breaks_off_anywhere_leaves_valid_json(cut):
    reader = TextOfField("body")
    shown = reader.feed('{"body": "a\\u00fc\\ud83d\\ude00\\n\\"b"}'[:cut]) + reader.finish()
    json.loads(f'"{shown}"')


BODY = {"type": "string", "description": LONG}


def test_a_part_is_in_the_dialect_of_the_whole():
    scores = {"type": "array", "items": [{"type": "number", "minimum": 0, "exclusiveMinimum": True}]}
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"title": {"type": "string"}, "body": BODY, "history": BODY, "scores": scores},
    }
    plan = record_of(schema, explicit=True)
    assert {part.object_schema["$schema"] for part in plan.parts} == {schema["$schema"]}
    for object_schema in (plan.first, *(part.object_schema for part in plan.parts)):
        validator_of(object_schema)  # raises what is wrong with it
    wrong = {"title": "One", "body": "A text.", "history": "Another.", "scores": [0]}
    answer = written(schema, wrong, "fields")
    assert answer.strategy == "fields"
    assert "scores" not in json.loads(answer.text)
    assert written(schema, wrong | {"scores": [1]}, "fields").parsed == wrong | {"scores": [1]}


def test_a_field_that_must_be_there_and_is_not_described_is_left_to_one_writer():
    inner = {"type": "object", "properties": {"body": BODY, "summary": BODY}, "required": ["body", "code"]}
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "inner": inner, "history": BODY}}
    schema["required"] = list(schema["properties"])
    assert [part.path for part in record_of(schema, explicit=True).parts] == [("inner",), ("history",)]
    schema["required"] = ["title", "year"]
    assert "requires 'year'" in record_of(schema, explicit=True).reason


def test_an_object_whose_type_stands_in_a_list_is_taken_apart():
    schema = {"type": ["object"], "properties": {"body": {**BODY, "type": ["string"]}, "history": BODY}}
    value = {"body": "A text.", "history": "Another."}
    answer = written(schema, value, "fields")
    assert (answer.strategy, answer.parsed) == ("fields", value)


def test_fields_beside_a_reference_are_left_to_one_writer():
    base = {"type": "object", "properties": {"title": {"type": "string"}, "body": BODY}, "required": ["title"]}
    more = {"$ref": "#/$defs/base", "properties": {"history": BODY, "summary": BODY}, "required": ["history"]}
    assert "in several places" in record_of({**more, "$defs": {"base": base}}, explicit=True).reason
    schema = {"type": "object", "properties": {"more": more, "history": BODY}, "$defs": {"base": base}}
    schema["required"] = ["more", "history"]
    assert [part.path for part in record_of(schema, explicit=True).parts] == [("more",), ("history",)]
    schema["properties"]["more"] = {"type": "array", "items": more}
    assert [part.keys for part in record_of(schema, explicit=True).parts] == [(), ()]


def test_an_object_with_definitions_of_its_own_is_left_to_one_writer():
    own = {
        "$id": "https://example.org/own",
        "type": "object",
        "properties": {"body": {"$ref": "#/$defs/body"}, "summary": BODY},
        "required": ["body"],
        "$defs": {"body": BODY},
    }
    schema = {"type": "object", "properties": {"own": own, "history": BODY}, "required": ["own", "history"]}
    schema["$defs"] = {"body": {"type": "array", "items": {"type": "string"}}}
    value = {"own": {"body": "A text.", "summary": "Short."}, "history": "Another."}
    answer = written(schema, value, "fields")
    assert (answer.strategy, answer.parsed) == ("fields", value)
    del own["$id"]
    paths = [part.path for part in record_of(schema, explicit=True).parts]
    assert paths == [("own", "body"), ("own", "summary"), ("history",)]


def test_a_part_has_the_definitions_that_its_definitions_lead_to():
    schema = {"type": "object", "properties": {"tags": {"$ref": "#/$defs/tags"}, "body": BODY, "history": BODY}}
    schema["$defs"] = {"tags": {"type": "array", "items": {"$ref": "#/$defs/label"}}}
    schema["$defs"] |= {"label": {"$ref": "#/$defs/word"}, "word": {"type": "string", "maxLength": 90}}
    plan = record_of(schema, explicit=True)
    assert set(plan.parts[0].object_schema["$defs"]) == {"tags", "label", "word"}
    validator_of(plan.parts[0].object_schema)  # raises what is wrong with it


def test_a_field_that_may_not_be_null_is_left_out_where_nothing_fits():
    mood = {"type": ["string"], "description": LONG}
    schema = {"type": "object", "properties": {"mood": mood, "body": BODY, "history": BODY}}
    said = {"mood": 5, "body": "A text.", "history": "Another."}
    with Stretto(ScriptedBackend(lambda _: json.dumps(said))) as stretto:
        answer = stretto.ask("Fill it in.", response_format=schema, strategy="fields")
    assert (answer.strategy, answer.parsed) == ("fields", {"body": "A text.", "history": "Another."})
    mood |= {"type": ["string", "null"], "enum": ["calm", "wild"]}
    assert not record_of(schema, apart=True).parts[0].nullable
    mood["enum"].append(None)
    assert record_of(schema, apart=True).parts[0].nullable


def test_elements_that_are_no_objects_are_left_to_one_writer():
    chapter = {"properties": {"title": {"type": "string"}, "text": BODY}}
    schema = {"type": "object", "properties": {"chapters": {"type": "array", "items": chapter}, "history": BODY}}
    schema["required"] = ["chapters", "history"]
    value = {"chapters": ["One", "Two"], "history": "Another."}
    assert record_of(schema, explicit=True).parts[0].keys == ("title",)
    answer = written(schema, value, "fields")
    assert (answer.strategy, answer.parsed) == ("direct", value)


def test_a_field_without_a_name_is_written_with_the_short_ones():
    names = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"": names, "body": BODY, "history": BODY}, "required": ["", "body"]}
    value = {"": ["No name."], "body": "A text.", "history": "Another."}
    answer = written(schema, value, "fields")
    assert (answer.strategy, answer.parsed) == ("fields", value)


def test_records_that_hold_each_other_are_described_up_to_a_limit():
    people = {f"friend{number}": {"$ref": "#/$defs/person"} for number in range(30)}
    person = {"type": "object", "properties": people}
    schema = {"type": "object", "properties": {"person": {"$ref": "#/$defs/person"}, "body": BODY, "history": BODY}}
    schema["$defs"] = {"person": person}
    value = {"body": "A text.", "history": "Another."}
    answer = written(schema, value, "fields")
    assert (answer.strategy, answer.parsed) == ("fields", value)


def test_an_object_of_given_ones_is_left_to_one_writer():
    schema = {
        "type": "object",
        "properties": {"body": BODY, "history": BODY},
        "enum": [{"body": "A.", "history": "B."}],
    }
    assert "enum" in record_of(schema, explicit=True).reason


def test_an_object_with_further_fields_of_a_known_form_is_left_to_one_writer():
    more = {"type": "object", "properties": {"body": BODY, "summary": BODY}, "additionalProperties": {"type": "string"}}
    assert "does not name" in record_of(more, explicit=True).reason
    schema = {"type": "object", "properties": {"more": more, "history": BODY}, "required": ["more", "history"]}
    assert [part.path for part in record_of(schema, explicit=True).parts] == [("more",), ("history",)]
    more["additionalProperties"] = {}
    paths = [part.path for part in record_of(schema, explicit=True).parts]
    assert paths == [("more", "body"), ("more", "summary"), ("history",)]


@pytest.mark.parametrize("more", [{"uniqueItems": True}, {"allOf": [{"items": {"required": ["text"]}}]}])
def test_an_array_that_says_more_of_its_elements_is_left_to_one_writer(more):
    chapter = {"type": "object", "properties": {"title": {"type": "string"}, "text": BODY}, "required": ["title"]}
    chapters = {"type": "array", "items": chapter}
    schema = {"type": "object", "properties": {"chapters": chapters, "history": BODY}}
    schema["required"] = ["chapters", "history"]
    assert record_of(schema, explicit=True).parts[0].keys == ("title",)
    chapters |= more
    assert not record_of(schema, explicit=True).parts[0].keys
    schema["$defs"] = {"other": {"type": "array", "items": {"type": "object"}}}
    schema["properties"]["chapters"] = {"$ref": "#/$defs/other", "items": chapter}
    assert not record_of(schema, explicit=True).parts[0].keys


@pytest.mark.parametrize("levels", [160, 600])
def test_a_field_nested_deeper_than_is_read_is_left_out(levels):
    schema = {"type": "object", "properties": {"body": BODY, "summary": BODY, "history": BODY}, "required": ["body"]}
    deep = f'{{"summary": {"[" * levels}{"]" * levels}}}'
    said = json.dumps({"body": "A text.", "history": "Another."})
    with Stretto(ScriptedBackend({"only the field `summary`": deep, "": said})) as stretto:
        answer = stretto.ask("Fill it in.", response_format=schema, strategy="fields")
    assert answer.parsed == {"body": "A text.", "history": "Another."}
