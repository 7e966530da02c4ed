"""References within a JSON schema: how many schemas apply to one value, and whether finite values can match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any
from urllib.parse import unquote

MOST_APPLIED = 10_000
"""The most schemas that may apply to one value at once. If each of 30 refers twice to the next, it is a billion, and
checking one answer would take hours."""

_AT_ONCE = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas apply to the same value as the schema around them."""
_DIGITS = 9  # of an index in a $ref; Python refuses to parse thousands


def parts(value: Any) -> Iterable[Any]:
    """Return the values inside an object or a list."""
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


def pointed_at(reference: Any, schema: Any) -> Any:
    """Resolve a local pointer; ``None`` for anything else, which the validator resolves."""
    start, _, path = str(reference).partition("#")
    if start or (path and not path.startswith("/")):
        return None
    for part in unquote(path).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isdecimal() and len(name) < _DIGITS and int(name) < len(schema):
            schema = schema[int(name)]
        elif isinstance(schema, Mapping):
            schema = schema.get(name)
        else:
            return None
    return schema


def most_applied(schema: Mapping[str, Any]) -> int:
    """Return the most schemas that apply to one value; one that refers to itself for that value is followed once."""
    counts: dict[int, int] = {}

    def count(part: Any) -> int:
        if not isinstance(part, Mapping | list | tuple):
            return 0
        if id(part) not in counts:
            counts[id(part)] = 1  # until it is known
            applied = _applied(part, schema) if isinstance(part, Mapping) else part
            counts[id(part)] = isinstance(part, Mapping) + sum(map(count, applied))
        return counts[id(part)]

    level: list[Any] = [schema]
    most = 0
    while level and most <= MOST_APPLIED:
        try:
            most = max(most, *map(count, level))
        except RecursionError:  # from a chain of hundreds
            return MOST_APPLIED + 1
        level = [part for each in level for part in parts(each) if isinstance(part, Mapping | list | tuple)]
    return most


def endless_parts(schema: Mapping[str, Any]) -> Set[int]:
    """Return the ids of the subschemas, this one included, that no finite value matches.

    Examples are ``{"$ref": "#"}`` and an object that requires another of its kind. There are no false positives:
    schemas with keywords that are not analysed here count as finite.
    """
    unknown = [part for part in _all_of(schema) if isinstance(part, Mapping)]
    endless = {id(part) for part in unknown}
    while True:
        left = []
        for part in reversed(unknown):  # the inner ones first
            if _ends(part, schema, endless):
                endless.discard(id(part))
            else:
                left.append(part)
        if len(left) == len(unknown):
            return endless
        unknown = left[::-1]


def _all_of(schema: Any) -> list[Any]:
    found, level = [], [schema]
    while level:
        found += level
        level = [part for each in level for part in parts(each) if isinstance(part, Mapping | list | tuple)]
    return found


def _ends(part: Mapping[str, Any], schema: Mapping[str, Any], endless: Set[int]) -> bool:
    """Return whether a finite value can match, assuming that those in ``endless`` have none."""

    def one(value: Any) -> bool:
        return id(value) not in endless

    if "const" in part or "enum" in part:
        return True
    if "$ref" in part and not one(pointed_at(part["$ref"], schema)):
        return False
    if not all(map(one, parts(part.get("allOf")))):
        return False
    for keyword in ("anyOf", "oneOf"):
        if (choices := list(parts(part.get(keyword)))) and not any(map(one, choices)):
            return False
    only = part.get("type")
    only = only[0] if isinstance(only, list) and len(only) == 1 else only
    if only == "object":
        return _object_ends(part, one)
    return only != "array" or _array_ends(part, one)


def _object_ends(part: Mapping[str, Any], one: Any) -> bool:
    named, required = part.get("properties"), part.get("required")
    named = named if isinstance(named, Mapping) else {}
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else []
    if not all(one(named[name]) for name in names if name in named):
        return False
    if not _least(part, "minProperties"):
        return True
    return any(map(one, (*named.values(), *parts(part.get("patternProperties")), part.get("additionalProperties"))))


def _array_ends(part: Mapping[str, Any], one: Any) -> bool:
    least, items = _least(part, "minItems"), part.get("items")
    first = list(parts(part.get("prefixItems"))) or (list(items) if isinstance(items, list | tuple) else [])
    return all(map(one, first[:least])) and (least <= len(first) or one(items))


def _least(part: Mapping[str, Any], keyword: str) -> int:
    value = part.get(keyword)
    return int(min(value, 1e9)) if isinstance(value, int | float) else 0


def _applied(part: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas that one schema applies to its own value."""
    for keyword in _AT_ONCE:
        value = part.get(keyword)
        if keyword == "dependentSchemas":
            yield from parts(value)
        elif isinstance(value, str):
            yield pointed_at(value, schema)
        else:
            yield value
