"""What becomes of a schema that no grammar holds whole: answers that fit can be written, and the rest is named."""

import json

import pytest
import torch
from transformers import AutoTokenizer

from stretto.local_engine.choosing.constraint import Grammars
from stretto.local_engine.pocket import pocket_folder
from stretto.values.errors import InvalidRequestError

END = 2


@pytest.fixture(scope="module")
def written():
    """Whether the constraint of a schema lets a value be written, and what it does not hold."""
    tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
    grammars = Grammars(tokenizer)

    def can_write(schema, value):
        constraint = grammars.constraint(schema, frozenset({END}))
        for token in [*tokenizer(json.dumps(value), add_special_tokens=False)["input_ids"], END]:
            logits = torch.zeros(len(tokenizer))
            constraint.restrict(logits, [])
            if logits[token] != 0:
                return False
            constraint.commit([token])
        return True

    can_write.unheld = lambda schema: grammars.constraint(schema, frozenset({END})).unheld
    return can_write


NAMES = {"type": "object", "additionalProperties": {"type": "integer"}}
COLOURS = {"type": "array", "items": {"$ref": "#/$defs/colour"}, "$defs": {"colour": {"enum": ["red", "blue"]}}}
ENDLESS = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}, "y": {}}, "additionalProperties": False}
ENDLESS["$defs"] = {"x": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"]}}


@pytest.mark.parametrize(
    ("schema", "unheld", "fitting", "refused"),
    [
        ({"type": "string", "format": "colour-of-our-own"}, (), ["red"], [5]),
        ({"type": "array", "uniqueItems": True}, ("uniqueItems",), [[1, 2]], [{}]),
        ({"type": "array", "uniqueItems": False}, (), [[1, 1]], [{}]),
        (COLOURS | {"uniqueItems": True}, ("uniqueItems",), [["red", "blue"]], [["red", "blue", "red"]]),
        (NAMES | {"propertyNames": {"pattern": "^[a-c]+$"}}, (), [{"abc": 1}, {}], [{"x": 1}, {"abc": "d"}]),
        (NAMES | {"propertyNames": {"enum": ["a.b", "c"]}}, (), [{"c": 1, "a.b": 2}], [{"axb": 1}]),
        (NAMES | {"propertyNames": {"maxLength": 2}}, (), [{"ab": 1}], [{"abc": 1}]),
        (NAMES | {"propertyNames": {"pattern": "^(?!x)"}}, ("propertyNames",), [{"ab": 1}], [{"a": "b"}]),
        (NAMES | {"properties": {"a": {}}, "propertyNames": {"maxLength": 2}}, ("propertyNames",), [{"a": "b"}], [5]),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, (), ["a", 1], [[]]),
        ({"oneOf": [{"minimum": 2}, {"type": "integer"}]}, ("oneOf",), [2.5, 1], []),
        (
            {"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}},
            ("if", "then"),
            [{"a": 1, "b": 2}],
            ["a"],
        ),
        ({"type": "string", "not": {"const": "a"}}, ("not",), ["b"], [1]),
        ({"type": "array", "contains": {"const": 1}, "minContains": 2}, ("contains", "minContains"), [[1, 1]], [1]),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, ("dependentRequired",), [{"a": 1, "b": 1}], [1]),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, (), [{"a": 1}], [{"b": 1}]),
        ({"type": "string", "pattern": "^(?!a)b"}, ("pattern",), ["b"], [1]),
        ({"items": {"pattern": "^[0-9]$"}, "not": {"pattern": "(a)\\1"}}, ("not",), [["1"]], [["a"]]),
        (
            {"prefixItems": [{"pattern": "^[0-9]$"}, {"pattern": r"^\d\Z"}]},
            ("pattern",),  # of the second; the first is still held
            [["1", "2"]],
            [["a", "2"]],
        ),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "^ab": {"minimum": 2}}},
            ("patternProperties",),
            [{"ab": 2}],
            [2],
        ),
        ({"type": "array", "maxItems": 2.0}, (), [[1, 2]], [[1, 2, 3]]),
        ({"$schema": "https://example.org/a-dialect-of-our-own", "type": "string"}, (), ["a"], [1]),
        (
            {"type": "object", "minProperties": 2, "properties": {"a": {}, "b": {}}, "additionalProperties": False},
            ("minProperties",),
            [{"a": 1, "b": 1}],
            [{"c": 1}],
        ),
        ({"allOf": [{"maxProperties": 1}, {"properties": {"a": {}}}]}, ("maxProperties",), [{"a": 1}], []),
        ({"type": "object", "maxProperties": 1}, (), [{"a": 1}], [{"a": 1, "b": 1}]),
        ({"properties": {"a": {}}, "required": ["a"], "minProperties": 1}, (), [{"a": 1}], [{}]),
        ({"propertyNames": {"pattern": "a"}, "unevaluatedProperties": False}, (), [{}], [{"a": 1}]),
        (ENDLESS, (), [{"y": 1}, {}], [{"x": {}}]),
    ],
)
def test_what_fits_can_be_written_and_what_is_not_held_is_named(schema, unheld, fitting, refused, written):
    assert set(written.unheld(schema)) == set(unheld)
    assert [value for value in fitting if not written(schema, value)] == []
    assert [value for value in refused if written(schema, value)] == []


@pytest.mark.parametrize(
    ("schema", "cause"),
    [
        ({"$anchor": "a", "$ref": "#a"}, "no answer to it can begin"),
        ({"$ref": "#"}, "no answer to it can begin"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, r"minLength \(5\) is greater than maxLength \(2\)"),
        ({"$ref": "https://example.org/other"}, "example.org"),
    ],
)
def test_a_schema_without_answers_is_refused(schema, cause, written):
    with pytest.raises(InvalidRequestError, match=cause):
        written.unheld(schema)
