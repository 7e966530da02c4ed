"""Reads the body of an error: what a server says, and of what kind it is, wherever in the JSON it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_DEEPEST = 8
_MOST = 3  # errors of a list that are told
_LONGEST = 4_096  # characters of a body in no known form
_OBJECTS = ("error", "errors", "detail")
_WORDS = (
    "message", "msg", "detail", "error", "errors", "error_message", "errormessage", "error_description", "description",
    "faultstring", "fault", "reason", "title",
)  # fmt: skip


def read_json(text: bytes | str) -> Any:
    """Read JSON; ``None`` if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_error(event: Any) -> bool:
    """Whether JSON is in one of the forms in which servers tell errors; Gemini's come as lists."""
    if isinstance(event, list):
        return bool(event) and is_error(event[0])
    if not isinstance(event, Mapping):
        return False
    return bool(event.get("error")) or event.get("type") == "error" or event.get("object") == "error"


def detail_of(body: Any) -> Mapping[str, Any]:
    """Give the fields of the innermost error of a body, those around it included; the first one of a list."""
    fields: dict[str, Any] = {}
    inner = body
    for _ in range(_DEEPEST):
        if isinstance(inner, list):
            inner = next((each for each in inner if isinstance(each, Mapping)), None)
        if not isinstance(inner, Mapping):
            break
        fields |= inner
        inner = next((inner[name] for name in _OBJECTS if isinstance(inner.get(name), (Mapping, list))), None)
    return fields


def word_of_error(detail: Mapping[str, Any], name: str) -> str:
    """Give a field that should be a word; a server may send anything."""
    value = detail.get(name)
    return str(value) if isinstance(value, (str, int)) else ""


def words_of(body: Any) -> str:
    """Give what a server says in words, or its JSON where it has none; empty where it says nothing."""
    try:
        said = _words(body, _DEEPEST)
    except RecursionError:
        said = ""
    return said or (as_text(body)[:_LONGEST] if body else "")


def as_text(body: Any) -> str:
    """Write a body as JSON; empty where that cannot be done."""
    try:
        return json.dumps(body, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return ""


def _words(body: Any, deepest: int) -> str:
    if isinstance(body, str):
        inner = read_json(body) if deepest and body.lstrip()[:1] in ("{", "[") else None  # JSON within a text
        return (_words(inner, deepest - 1) if inner else "") or body.strip()
    if deepest and isinstance(body, list):
        return "; ".join(dict.fromkeys(filter(None, (_words(each, deepest - 1) for each in body[:_MOST]))))
    if not (deepest and isinstance(body, Mapping)):
        return ""
    named = {str(name).lower(): value for name, value in body.items()}
    said = next(filter(None, (_words(named.get(name), deepest - 1) for name in _WORDS)), "")
    if isinstance(where := named.get("loc"), list) and said:  # of FastAPI
        said = f"{'.'.join(str(each) for each in where if each != 'body')}: {said}"
    if isinstance(beside := named.get("metadata"), Mapping) and (raw := _words(beside.get("raw"), deepest - 1)):
        said = f"{said}: {raw}"  # OpenRouter's words for another server's error say nothing
    return said
