"""Estimate the tokens of a value that fits a JSON schema, as far as the schema shows: for forecasts, not for limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stretto.foundation.schema_graph import pointed_at
from stretto.language.folding import fold
from stretto.language.forms import words_wanted
from stretto.router.forecast import TYPICAL_TOKENS_PER_WORD

USUAL_ELEMENTS = 5  # of an array whose schema gives no number
LONG_TEXT, SOME_TEXT, SHORT_TEXT = 150, 25, 8
_CHAIN = 6  # $refs that lead to one another
_MOST = 100_000
_KEY = 4  # tokens of a name, its quotes and the comma
_NUMBER, _CODED, _UNKNOWN = 5, 12, 60
_LONG = re.compile(
    r"(?<![a-z])(?:abstract|advice|analysis|answer|article|assessment|background|bio|biography|body|chapter|comment"
    r"|conclusion|content|critique|description|details|discussion|draft|essay|evaluation|explanation|history"
    r"|introduction|letter|message|narrative|notes|outlook|overview|paragraphs?|plot|post|rationale|reasoning|report"
    r"|response|review|section|speech|story|summary|text)(?![a-z])"
)
_SHORT = re.compile(
    r"(?<![a-z])(?:address|author|brand|category|city|code|colou?r|country|currency|date|day|email|first|genre|heading"
    r"|id|iban|isbn|key|label|language|last|level|location|month|name|number|phone|place|publisher|role|sku|slug|state"
    r"|status|street|subject|symbol|time|title|topic|type|unit|url|user|username|vendor|version|year|zip)(?![a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE = re.compile(r"(?<![a-z])(?:one|a single|a short|single) (?:sentence|line|phrase)(?![a-z])")


class SchemaTokens:
    """Estimates the tokens of values of one schema and of its parts.

    Args:
        root: the schema that the $refs of its parts refer to.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[tuple[int, str], int] = {}

    def of(self, schema: Any, name: str = "") -> int:
        """Estimate the tokens of a value of this part, which is the field of this ``name``."""
        key = (id(schema), name)
        if key not in self._known:
            self._known[key] = _UNKNOWN  # for a recursive part
            self._known[key] = min(self._of(resolved(schema, self._root), name), _MOST)
        return self._known[key]

    def _of(self, described: Any, name: str) -> int:
        schema = without_null(described, self._root) if isinstance(described, Mapping) else {}
        if "const" in schema or "enum" in schema or schema.get("type") in ("integer", "number", "boolean", "null"):
            return _NUMBER
        for keyword in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(keyword), list) and choices:
                return max(self.of(each, name) for each in choices)
        properties, kind = schema.get("properties"), schema.get("type")
        if isinstance(properties, Mapping):
            return sum(_KEY + self.of(each, key) for key, each in properties.items())
        if kind == "array":
            return 2 + elements_of(schema) * (2 + self.of(schema.get("items"), name))
        return _text_tokens({**schema, **_annotations(described)}, name) if kind == "string" else _UNKNOWN


def resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """Follow a chain of local $refs to its schema, merging sibling keywords; other $refs stay unchanged."""
    for _ in range(_CHAIN):
        if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
            break
        found = pointed_at(schema["$ref"], root)
        if not isinstance(found, Mapping):
            break
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def without_null(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the only alternative to null that a schema allows, or else the schema unchanged."""
    if isinstance(kinds := schema.get("type"), list):
        others = [each for each in kinds if each != "null"]
        return {**schema, "type": others[0]} if len(others) == 1 else schema
    for keyword in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(keyword), list):
            others = [each for each in choices if not (isinstance(each, Mapping) and each.get("type") == "null")]
            if len(others) == 1 < len(choices):
                siblings = {key: value for key, value in schema.items() if key != keyword}
                found = resolved(others[0], root)
                return {**found, **siblings} if isinstance(found, Mapping) else schema
    return schema


def elements_of(schema: Mapping[str, Any]) -> int:
    """Estimate the number of elements of an array."""
    least, most = schema.get("minItems"), schema.get("maxItems")
    low = int(least) if isinstance(least, int | float) else 0
    high = int(most) if isinstance(most, int | float) else max(low, USUAL_ELEMENTS)
    return max(low, min(high, (low + high + 1) // 2 if low and isinstance(most, int | float) else USUAL_ELEMENTS))


def _annotations(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("description", "title") if key in schema}


def _text_tokens(schema: Mapping[str, Any], name: str) -> int:
    longest, description = schema.get("maxLength"), schema.get("description")
    most = int(longest) // 4 + 1 if isinstance(longest, int | float) else None
    if isinstance(schema.get("format"), str) or isinstance(schema.get("pattern"), str):
        return min(_CODED, most or _CODED)
    described = fold(description[:2_000]) if isinstance(description, str) else ""
    called = _CAMEL.sub(" ", name).lower().replace("_", " ").replace("-", " ")
    if words := words_wanted(described):
        tokens = round(words * TYPICAL_TOKENS_PER_WORD)
    elif _SENTENCE.search(described):
        tokens = SOME_TEXT
    elif _LONG.search(called) or re.search(r"paragraph|detailed|in detail|thorough|essay|full text", described):
        tokens = LONG_TEXT
    elif _SHORT.search(called):
        tokens = SHORT_TEXT
    else:
        tokens = SOME_TEXT
    return tokens if most is None else max(1, min(tokens, most))
