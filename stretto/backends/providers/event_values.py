"""Reads values from a server's events, any of which can be missing or of a wrong type.

An event is the SDK's model, or plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_TOKENS = 2**53


class EventError(Exception):
    """An event that is an error although the SDK passed it on; ``body`` is its content."""

    def __init__(self, body: object) -> None:
        super().__init__("The stream holds an error.")
        self.body = body


class OddEventError(Exception):
    """An event that contains something impossible; the message says what."""


def value_of(thing: Any, name: str) -> Any:
    """Return a field of a model or of a JSON object; ``None`` if it is missing."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def text_of(thing: Any, name: str) -> str:
    """Return a text; empty if it is missing. Raises `OddEventError`."""
    value = value_of(thing, name)
    if value is None or isinstance(value, str):
        return value or ""
    raise OddEventError(f"{name} is a {type(value).__name__}, not a text")


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message; ``others`` are the types of all other parts."""

    text: str = ""
    thinking: str = ""
    refusal: str = ""
    others: tuple[str, ...] = ()


def content_of(message: Any) -> Content:
    """Return the content of a message, which is a text or a list of parts. Raises `OddEventError`."""
    value = value_of(message, "content")
    if isinstance(value, Mapping) and (value.get("type") or value.get("text")):
        value = [value]
    if not isinstance(value, list):
        return Content(text_of(message, "content"))
    found: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": [], "others": []}
    for part in filter(None, value):
        if not isinstance(part, str):
            _check_object(part, "one of content")
        kind = "text" if isinstance(part, str) else value_of(part, "type")
        if kind is None and isinstance(value_of(part, "text"), str):
            kind = "text"
        field = _PARTS.get(kind, "others") if isinstance(kind, str) else "others"
        found[field].append(str(kind)[:_SHOWN] if field == "others" else words_of(plain(part)))
    texts = {field: "".join(pieces) for field, pieces in found.items() if field != "others"}
    return Content(**texts, others=tuple(dict.fromkeys(found["others"])))


_PARTS = {
    **dict.fromkeys(("text", "output_text", "input_text"), "text"),
    **dict.fromkeys(("thinking", "reasoning", "reasoning_text", "reasoning_content", "summary_text"), "thinking"),
    "refusal": "refusal",
}
_WORDS = ("text", "thinking", "reasoning", "reasoning_content", "summary", "content", "refusal")
_SHOWN = 40
_DEEPEST = 4  # a thought is a list of texts, or an object around one


def words_of(part: Any, depth: int = 0) -> str:
    """Return the text of a part, under whichever of the usual names it is."""
    if isinstance(part, str):
        return part
    if depth >= _DEEPEST:
        return ""
    if isinstance(part, list):
        return "".join(words_of(each, depth + 1) for each in part)
    if not isinstance(part, Mapping):
        return ""
    texts = (words_of(part[name], depth + 1) for name in _WORDS if part.get(name))
    return next((words for words in texts if words), "")


def objects_of(thing: Any, name: str) -> Sequence[Any]:
    """Return a list of objects; empty if it is missing. Raises `OddEventError`."""
    value = value_of(thing, name)
    if value is not None and not isinstance(value, list):
        raise OddEventError(f"{name} is a {type(value).__name__}, not a list")
    for each in value or ():
        _check_object(each, f"one of {name}")
    return value or ()


def object_of(thing: Any, name: str) -> Any:
    """Return an object; ``None`` if it is missing. Raises `OddEventError`."""
    value = value_of(thing, name)
    _check_object(value, name)
    return value


def _check_object(value: Any, name: str) -> None:
    if isinstance(value, (str, int, float, list)):
        raise OddEventError(f"{name} is a {type(value).__name__}, not an object")


def word_of(thing: Any, name: str) -> str | None:
    """Return a word from a set that can grow; ``None`` for anything else."""
    value = value_of(thing, name)
    return value if isinstance(value, str) and value else None


def count_of(thing: Any, name: str) -> int | None:
    """Return a number of tokens; ``None`` if it is missing or impossible."""
    value = value_of(thing, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST_TOKENS:
        return None
    return int(value)


def plain(thing: Any) -> Any:
    """Return an event as JSON, so that an error in it can be read."""
    dump = getattr(thing, "to_dict", None)
    return dump(warnings=False) if callable(dump) else thing
