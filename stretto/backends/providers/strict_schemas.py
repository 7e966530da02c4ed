"""Converts a JSON schema for OpenAI's strict mode, which rejects much of what JSON Schema can express.

The rules are those under "Supported schemas" in OpenAI's guide to structured outputs, as of November 2026. Keywords
that only describe a value are left out if strict mode does not know them; those that constrain it never are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_LEVELS = 10
_MOST_PROPERTIES = 5_000
_MOST_VALUES = 1_000  # of enumerations
_MOST_CHARACTERS = 120_000  # of names and values
_MOST_PARTS = 20_000  # a schema can repeat itself at many places, and each is a separate part
_DESCRIBING = frozenset({"title", "description"})
_WITHOUT_EFFECT = frozenset(
    {"$comment", "$schema", "after", "default", "deprecated", "examples", "readOnly", "writeOnly"}
)
_KEPT = _DESCRIBING | {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "pattern", "format",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
}  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_DEFINITIONS = ("$defs", "definitions")


class _NotStrictError(Exception):
    """Strict mode cannot express the schema."""


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in strict form, matched by the same values; ``None`` if there is no such form."""
    try:
        return _Strict(schema).form()
    except (_NotStrictError, RecursionError):
        return None


@dataclass
class _Strict:
    """The conversion of one schema into strict form."""

    whole: Mapping[str, Any]
    parts: int = 0
    properties: int = 0
    values: int = 0
    characters: int = 0
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def form(self) -> dict[str, Any]:
        root: dict[str, Any] = {name: value for name, value in self.whole.items() if name not in _DEFINITIONS}
        begun = frozenset[str]()
        if isinstance(ref := root.get("$ref"), str):  # strict mode requires the object itself at the top
            root, begun = self._target(ref) | {name: root[name] for name in root if name != "$ref"}, frozenset({ref})
        form = self._part(root, 1, begun)
        if form.get("type") != "object" or "anyOf" in form:
            raise _NotStrictError
        return form | self.definitions

    def _part(self, given: Any, level: int, inside: frozenset[str]) -> dict[str, Any]:
        """Convert one part; ``inside``: the references that led to it."""
        self.parts += 1
        if not isinstance(given, Mapping) or self.parts > _MOST_PARTS:
            raise _NotStrictError
        part: dict[str, Any]
        part = {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT and name[:2] != "x-"}
        if "oneOf" in part and "anyOf" not in part:  # the answer is checked for matching exactly one
            part["anyOf"] = part.pop("oneOf")
            part.pop("discriminator", None)
        if isinstance(ref := part.pop("$ref", None), str):
            return self._referred(ref, part, level, inside)
        if not (part.keys() <= _KEPT and level <= _MOST_LEVELS):
            raise _NotStrictError
        self._check_values(part)
        types = {part["type"]} if isinstance(part.get("type"), str) else set(part.get("type") or ())
        if not (types <= _TYPES and (types or "anyOf" in part)):
            raise _NotStrictError
        if "object" in types:
            part["properties"] = self._fields(part, level, inside)
        if "array" in types:
            part["items"] = self._part(part.get("items"), level + 1, inside)
        if "anyOf" in part:
            part["anyOf"] = [self._part(each, level, inside) for each in part["anyOf"]]
        return part

    def _referred(self, ref: str, siblings: Mapping[str, Any], level: int, inside: frozenset[str]) -> dict[str, Any]:
        """Convert a reference. Strict mode allows no keywords next to it, so its target replaces it and gets them."""
        if not siblings.keys() <= _DESCRIBING:
            raise _NotStrictError
        if siblings and ref not in inside:
            return self._part({**self._target(ref), **siblings}, level, inside | {ref})
        self._define(ref, level)
        return {"$ref": ref}

    def _define(self, ref: str, level: int) -> None:
        if ref == "#":
            return
        target = self._target(ref)
        _, where, name = ref.split("/")
        known = self.definitions.setdefault(where, {})
        if name not in known:
            known[name] = {}  # it can refer to itself
            self._count(name)
            known[name] = self._part(target, level, frozenset({ref}))

    def _target(self, ref: str) -> dict[str, Any]:
        if ref == "#":
            return {name: value for name, value in self.whole.items() if name not in _DEFINITIONS}
        where = ref.split("/")
        target = self.whole.get(where[1], {}).get(where[2]) if len(where) == 3 and where[1] in _DEFINITIONS else None
        if where[0] != "#" or not isinstance(target, Mapping):
            raise _NotStrictError
        return dict(target)

    def _fields(self, part: Mapping[str, Any], level: int, inside: frozenset[str]) -> dict[str, Any]:
        fields = part.get("properties", {})
        required = part.get("required", [])
        if part.get("additionalProperties") is not False or set(fields) != set(required):
            raise _NotStrictError
        self.properties += len(fields)
        self._count(*fields)
        return {name: self._part(each, level + 1, inside) for name, each in fields.items()}

    def _check_values(self, part: Mapping[str, Any]) -> None:
        if part.get("format", "date") not in _FORMATS:
            raise _NotStrictError
        listed = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
        self.values += len(listed)
        self._count(*listed)

    def _count(self, *names: Any) -> None:
        self.characters += sum(len(name) for name in names if isinstance(name, str))
        if self.properties > _MOST_PROPERTIES or self.values > _MOST_VALUES or self.characters > _MOST_CHARACTERS:
            raise _NotStrictError
