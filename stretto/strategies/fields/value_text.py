"""Reads the value of one field from the text of its call: streamed if it is text, else as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from stretto.foundation.json_schema import MOST_LEVELS, is_deeper, validator_of
from stretto.strategies.structured.bare_json import json_in
from stretto.values.content import mended

MISSING: Any = object()
"""The field has no value."""

LACKS = "it lacks the field"
"""Why an object without the requested field does not fit."""

_CAUSE = 300  # characters
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = 6  # characters of the longest escape, \u with its four digits
_PREAMBLE = 2_000  # characters; after this many, no object is expected any more
_HEX = re.compile(r"[0-9a-fA-F]{4}")


def json_text(value: Any) -> str:
    """Return a value as JSON text for the answer."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Found:
    """What a call wrote. ``value`` is `MISSING` if none fits; ``wrong`` says why."""

    value: Any = MISSING
    wrong: str = ""


def found_in(text: str, schema: Mapping[str, Any], name: str = "", *, cut: bool = False) -> Found:
    """Return the value in a text that fits a schema.

    Args:
        text: what a call wrote.
        schema: of the object that it was to write.
        name: the only field, whose value is wanted; empty for the object itself.
        cut: whether the text broke off; then its complete parts count.
    """
    wrong = "it is not valid JSON"
    for given in _values(text, cut=cut):
        if is_deeper(given):
            wrong = f"it is nested deeper than {MOST_LEVELS} levels"
            continue
        value = mended(given)
        if name and value == {}:
            wrong = LACKS
            continue
        whole = value
        if name and not (isinstance(value, dict) and name in value):
            whole = {name: value}  # the model left out the object around it
        if isinstance(whole, dict) and schema.get("additionalProperties") is False:  # others write the rest
            whole = {key: each for key, each in whole.items() if key in schema.get("properties", {})}
        if not (fault := _fault(whole, schema)):
            return Found(whole[name] if name else whole)
        wrong = fault
    return Found(wrong=wrong)


def _values(text: str, *, cut: bool) -> list[Any]:
    found = [json.loads(each) for each in json_in(text)]
    begin = text.find("{")
    if found or begin < 0:
        return found
    try:
        return [json.JSONDecoder(strict=False).raw_decode(text, begin)[0]]  # strings can contain line breaks
    except (ValueError, RecursionError):
        pass
    try:
        return [from_json(text[begin:], allow_partial="trailing-strings")] if cut else []
    except ValueError:
        return []


def without_the_last(text: str) -> str:
    """Return a truncated object as JSON without its last field; any other text unchanged."""
    begin = max(0, text.find("{"))
    try:
        value = from_json(text[begin:], allow_partial="trailing-strings")
    except ValueError:
        return text
    if not isinstance(value, dict) or _is_object(text[begin:]):
        return text
    return json_text(dict([*value.items()][:-1]))


def _fault(value: Any, schema: Mapping[str, Any]) -> str:
    try:
        validator = validator_of(schema)
    except (ImportError, ValueError, TypeError):  # reported for the whole answer
        return ""
    if validator.is_valid(value):
        return ""
    error = next(iter(validator.iter_errors(value)))
    place = ".".join(map(str, error.instance_path)) or "the answer"
    return f"{place}: {' '.join(error.message.split())}"[:_CAUSE].rstrip(".")


def begun_at(text: str, name: str) -> int | None:
    """Return where a text field begins in an object that is being written; ``None`` before it does."""
    begin = text.find("{")
    for key in dict.fromkeys((json.dumps(name), json_text(name))):
        at = text.find(key, begin + 1)
        while at >= 0 and begin >= 0:
            colon = text[at + len(key) :].lstrip()
            if colon.startswith(":") and colon[1:].lstrip().startswith('"') and _is_object(closed(text[begin:at])):
                return at
            at = text.find(key, at + 1)
    return None


def closed(text: str) -> str:
    """Return an object that is being written as if it ended before its next field."""
    return text.rstrip().removesuffix(",") + "}"


def _is_object(text: str) -> bool:
    """Return whether a text is complete JSON."""
    try:
        from_json(text)
    except ValueError:
        return False
    return True


class TextOfField:
    r"""Passes on the characters of the only string in a JSON object, ``{"name": "..."}``, as they arrive.

    The result does not depend on how the stream was chunked. The output is JSON-escaped, without the quotes; an
    unpaired surrogate such as ``\ud83d`` is replaced.

    Attributes:
        opened: whether the string has begun.
        closed: whether the string has ended.
    """

    def __init__(self, name: str) -> None:
        self._names = (json.dumps(name), json_text(name))
        self._buffer = ""
        self._high = ""
        self.opened = self.closed = False

    def feed(self, text: str) -> str:
        """Take new text; return the part of it that belongs to the field, escaped."""
        if self.closed:
            return ""
        self._buffer += text
        if not self.opened:
            begun = self._begun()
            if begun is None:
                self.closed = len(self._buffer) > _PREAMBLE
                return ""
            self.opened, self._buffer = True, begun
        return json_text(self._read())[1:-1]

    def finish(self) -> str:
        """Return what was held back, at the end of the stream."""
        high, self._high = self._high, ""
        return "\ufffd" if high and self.opened else ""

    def _begun(self) -> str | None:
        """Return what follows the opening quote of the string; ``None`` before it has arrived."""
        rest = self._buffer.partition("{")[2].lstrip()
        for name in self._names:
            colon, value = rest[len(name) :].lstrip()[:1], rest[len(name) :].lstrip()[1:].lstrip()
            if rest.startswith(name) and colon == ":" and value.startswith('"'):
                return value[1:]
        return None

    def _read(self) -> str:
        out: list[str] = []
        at, buffer = 0, self._buffer
        while at < len(buffer):
            sign = buffer[at]
            if sign == '"':
                self.closed = True
                out.append(self.finish())
                break
            if sign != "\\":
                end = min((found for mark in '"\\' if (found := buffer.find(mark, at)) >= 0), default=len(buffer))
                out.append(self.finish() + buffer[at:end])
                at = end
            elif at + 1 == len(buffer) or (buffer[at + 1] == "u" and at + _ESCAPE > len(buffer)):
                break  # the rest of the escape is still to come
            elif buffer[at + 1] == "u" and _HEX.fullmatch(buffer, at + 2, at + _ESCAPE):
                out.append(self._character(chr(int(buffer[at + 2 : at + _ESCAPE], 16))))
                at += _ESCAPE
            else:
                out.append(self.finish() + _SIMPLE.get(buffer[at + 1], buffer[at + 1]))
                at += 2
        self._buffer = buffer[at:]
        return "".join(out)

    def _character(self, unit: str) -> str:
        """Return a character from one or two UTF-16 code units."""
        if self._high and "\udc00" <= unit <= "\udfff":
            pair, self._high = self._high + unit, ""
            return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        before = self.finish()
        if "\ud800" <= unit <= "\udbff":
            self._high = unit
            return before
        return before + ("\ufffd" if "\udc00" <= unit <= "\udfff" else unit)
