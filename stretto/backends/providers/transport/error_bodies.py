"""Extracts a server's message and its kind from the body of an error, wherever in the JSON they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_DEEPEST = 8
_MOST = 3  # errors of a list that are quoted
_LONGEST = 4_096  # characters of a body in no known format
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
    """Return whether JSON is in one of the formats of server errors; Gemini's come as lists."""
    if isinstance(event, list):
        return bool(event) and is_error(event[0])
    if not isinstance(event, Mapping):
        return False
    return bool(event.get("error")) or event.get("type") == "error" or event.get("object") == "error"


def detail_of(body: Any) -> Mapping[str, Any]:
    """Return the fields of the innermost error of a body, including those around it; of a list, the first one."""
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
    """Return a field that should be a word; a server can send anything."""
    value = detail.get(name)
    return str(value) if isinstance(value, (str, int)) else ""


def words_of(body: Any) -> str:
    """Return a server's message, or its JSON if it has none; empty if it says nothing."""
    try:
        message = _words(body, _DEEPEST)
    except RecursionError:
        message = ""
    return message or (as_text(body)[:_LONGEST] if body else "")


def as_text(body: Any) -> str:
    """Return a body as JSON text; empty if it cannot be serialised."""
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
    message = next(filter(None, (_words(named.get(name), deepest - 1) for name in _WORDS)), "")
    if isinstance(where := named.get("loc"), list) and message:  # from FastAPI
        message = f"{'.'.join(str(each) for each in where if each != 'body')}: {message}"
    if isinstance(metadata := named.get("metadata"), Mapping) and (raw := _words(metadata.get("raw"), deepest - 1)):
        message = f"{message}: {raw}"  # OpenRouter's message for another server's error says nothing
    return message
