"""JSON schemas for answers: read from the forms that callers use, and checked before anything is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from stretto.foundation.arguments import looks_like_key, safe_repr
from stretto.foundation.schema_graph import MOST_APPLIED, endless_parts, most_applied, parts
from stretto.values.errors import InvalidRequestError

MOST_LEVELS = 150
"""The maximum nesting of values that are read. Pydantic reads JSON of 200 levels; jsonschema-rs cannot describe errors
at 255, and a stack overflow in it ends the process."""

_REMEDY = "Give a JSON schema such as {'type': 'object', 'properties': {...}}, or a pydantic model class."
_TYPES = "array, boolean, integer, null, number, object and string"
_TOO_DEEP = f"it is nested deeper than {MOST_LEVELS} levels"
_TOO_MANY = f"more than {MOST_APPLIED:,} schemas apply to one value, by $ref and allOf"
_ENDLESS = (
    "no value that fits it ends: each one must hold another of the same kind. Let that part be left out or be null"
)
_LONGEST_CAUSE = 200  # characters
_LEADS_TO = re.compile(r"(?:Resource|Pointer|Anchor) '([^']*)'")


def read_format(given: Any) -> dict[str, Any] | str | None:
    """Return the JSON schema or regular expression of a ``response_format``.

    ``given``: a schema; a pydantic model class; OpenAI's ``{"type": "json_schema", "json_schema": {"schema": ...}}``,
    also without the level between; its ``{"type": "json_object"}``, any object; its ``{"type": "text"}``, which is
    ``None``; a string, which is a regular expression. Raises `InvalidRequestError` for anything else.
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, type) and issubclass(given, BaseModel):
        return _checked(_closed(_schema_of(given)), given)
    if not isinstance(given, Mapping):
        raise _refused(given, f"it is of the type {type(given).__name__}")
    form = given.get("type")
    if form == "text":
        return None
    if form == "json_object":
        return {"type": "object"}
    if form != "json_schema":
        return _checked(given, given)
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    if not isinstance(schema, Mapping):
        raise _refused(given, "it has no schema at json_schema.schema")
    if not isinstance(inner.get("strict"), bool | None):
        raise _refused(given, f"json_schema.strict={safe_repr(inner['strict'])} is neither true nor false")
    return _checked(schema, given)


def strict_of(given: Mapping[str, Any]) -> bool | None:
    """Return the strict mode of a ``response_format`` in OpenAI's form; ``None`` if it is not set."""
    inner = given.get("json_schema", given) if given.get("type") == "json_schema" else {}
    return inner.get("strict") if isinstance(inner, Mapping) else None


def validator_of(schema: Mapping[str, Any]) -> Any:
    """Return jsonschema-rs's validator, which fetches nothing; unknown dialects count as draft 2020-12.

    Raises `ValueError` or `TypeError` for invalid schemas, `ImportError` without jsonschema-rs.
    """
    import jsonschema_rs  # noqa: PLC0415 - takes 0.15 s, and is needed only for requests with a schema

    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_fetch_nothing)
    except jsonschema_rs.ValidationError as error:
        if error.kind.name != "$ref" or "$schema" not in schema:
            raise
        return jsonschema_rs.Draft202012Validator(dict(schema), retriever=_fetch_nothing)


def is_deeper(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Return whether a JSON value nests objects and lists deeper than ``levels``."""
    level = [value]
    for _ in range(levels + 1):
        level = [part for each in level for part in parts(each)]
        if not level:
            return False
    return True


def _checked(schema: Mapping[str, Any], given: Any) -> dict[str, Any]:
    if flaw := _flaw(schema):
        raise _refused(given, flaw)
    return dict(schema)


def _flaw(schema: Mapping[str, Any]) -> str:
    try:
        json.dumps(dict(schema), allow_nan=False)
        if flaw := _flaw_of_form(schema):
            return flaw
        validator_of(schema)
    except ImportError:
        return ""  # a warning says later that the answer was not checked
    except RecursionError:
        return _TOO_DEEP
    except (ValueError, TypeError) as error:
        return _cause(error)
    return ""


def _flaw_of_form(schema: Mapping[str, Any]) -> str:
    """Describe what is wrong with the nesting or the references of a schema; empty if nothing is."""
    if is_deeper(schema):
        return _TOO_DEEP
    if most_applied(schema) > MOST_APPLIED:
        return _TOO_MANY
    return _ENDLESS if id(schema) in endless_parts(schema) else ""


def _cause(error: Exception) -> str:
    """Describe what is wrong with a schema; empty if the only problem is a pattern in an unsupported dialect."""
    kind, message = getattr(error, "kind", None), getattr(error, "message", str(error))
    if kind is None:
        return f"as JSON it is impossible: {message}"
    path, value = error.instance_path, error.instance  # type: ignore[attr-defined]  # it has a kind
    place = ".".join("[hidden]" if looks_like_key(str(part)) else str(part) for part in path) or "its top"
    if kind.name == "$ref":
        target = found[1] if (found := _LEADS_TO.search(message)) else message
        return f"a $ref leads to {safe_repr(target)}, which is not in it"
    if kind.name == "format":
        return "" if _is_expression(value) else f"{place}={safe_repr(value)} is no regular expression"
    if kind.name == "anyOf" and place.endswith("type"):
        return f"{place}={safe_repr(value)} is no type of JSON. Those are {_TYPES}"
    if looks_like_key(message):
        return f"at {place}, there is what looks like a key"
    return f"at {place}, {message if len(message) <= _LONGEST_CAUSE else message[:_LONGEST_CAUSE] + '…'}"


def _is_expression(pattern: object) -> bool:
    try:
        re.compile(str(pattern))
    except re.error:
        return False
    return True


def _refused(given: object, cause: str) -> InvalidRequestError:
    name = given.__name__ if isinstance(given, type) else safe_repr(given)
    return InvalidRequestError(f"response_format={name} cannot be used: {cause}. {_REMEDY}")


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    try:
        return model.model_json_schema()
    except PydanticUserError as error:
        raise _refused(model, f"no JSON schema can be made of it. {error.message.rstrip('.')}") from None


def _closed(schema: Any) -> Any:
    """Allow only declared fields in objects, and require them all: a schema that allows more gets more, without end."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: _closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        schema = {"additionalProperties": False} | schema | {"required": list(schema["properties"])}
    return schema


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"{uri} is not part of the schema")
