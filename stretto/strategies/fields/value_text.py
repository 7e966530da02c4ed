"""Reads the value of one field from what its call writes: while it comes, where it is text; else as a whole."""

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
"""Of a field: there is no value."""

LACKS = "it lacks the field"
"""Why an empty object is none that was asked for."""

_CAUSE = 300  # characters
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = 6  # characters of the longest one, a \u with its four digits
_PREAMBLE = 2_000  # characters before an object that is not waited for any longer
_HEX = re.compile(r"[0-9a-fA-F]{4}")


def json_text(value: Any) -> str:
    """A value as the answer holds it."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Found:
    """What a call wrote. ``value``: `MISSING` where there is none that fits; ``wrong``: why."""

    value: Any = MISSING
    wrong: str = ""


def found_in(text: str, schema: Mapping[str, Any], name: str = "", *, cut: bool = False) -> Found:
    """The value of a text that fits a schema.

    Args:
        text: of a call.
        schema: of the object that it was to write.
        name: of the one field whose value it is; empty: the object itself is.
        cut: the text was broken off. What is whole of it counts.
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
        return [json.JSONDecoder(strict=False).raw_decode(text, begin)[0]]  # lines break within its texts
    except (ValueError, RecursionError):
        pass
    try:
        return [from_json(text[begin:], allow_partial="trailing-strings")] if cut else []
    except ValueError:
        return []


def without_the_last(text: str) -> str:
    """An object that was cut, without the last field that had begun, as JSON; any other text as it is."""
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
    except (ImportError, ValueError, TypeError):  # told of the whole answer
        return ""
    if validator.is_valid(value):
        return ""
    error = next(iter(validator.iter_errors(value)))
    place = ".".join(map(str, error.instance_path)) or "the answer"
    return f"{place}: {' '.join(error.message.split())}"[:_CAUSE].rstrip(".")


def begun_at(text: str, name: str) -> int | None:
    """Where the text of a field begins in an object that is being written; ``None`` before it does."""
    begin = text.find("{")
    for key in dict.fromkeys((json.dumps(name), json_text(name))):
        at = text.find(key, begin + 1)
        while at >= 0 and begin >= 0:
            colon = text[at + len(key) :].lstrip()
            if colon.startswith(":") and colon[1:].lstrip().startswith('"') and _is_object(_before(text[begin:at])):
                return at
            at = text.find(key, at + 1)
    return None


def _before(text: str) -> str:
    return text.rstrip().removesuffix(",") + "}"


def _is_object(text: str) -> bool:
    """Whether it is whole; not where a text was cut in the middle."""
    try:
        from_json(text)
    except ValueError:
        return False
    return True


class TextOfField:
    r"""Passes on the characters of the one text in an object of JSON, ``{"name": "..."}``, as they come.

    The result does not depend on how the stream was chunked. What it gives stands between the quotes of a JSON text;
    half a character of an escape such as ``\ud83d`` is replaced.

    Attributes:
        opened: its text has begun.
        closed: its text has ended.
    """

    def __init__(self, name: str) -> None:
        self._names = (json.dumps(name), json_text(name))
        self._held = ""
        self._high = ""
        self.opened = self.closed = False

    def feed(self, text: str) -> str:
        """Take new text; return what of it is text of the field, with escapes."""
        if self.closed:
            return ""
        self._held += text
        if not self.opened:
            begun = self._begun()
            if begun is None:
                self.closed = len(self._held) > _PREAMBLE
                return ""
            self.opened, self._held = True, begun
        return json_text(self._read())[1:-1]

    def finish(self) -> str:
        """What was held back, at the end of the stream."""
        high, self._high = self._high, ""
        return "\ufffd" if high and self.opened else ""

    def _begun(self) -> str | None:
        """What stands behind the quotation mark that opens the text; ``None`` before it has come."""
        rest = self._held.partition("{")[2].lstrip()
        for name in self._names:
            colon, value = rest[len(name) :].lstrip()[:1], rest[len(name) :].lstrip()[1:].lstrip()
            if rest.startswith(name) and colon == ":" and value.startswith('"'):
                return value[1:]
        return None

    def _read(self) -> str:
        out: list[str] = []
        at, held = 0, self._held
        while at < len(held):
            sign = held[at]
            if sign == '"':
                self.closed = True
                out.append(self.finish())
                break
            if sign != "\\":
                end = min((found for mark in '"\\' if (found := held.find(mark, at)) >= 0), default=len(held))
                out.append(self.finish() + held[at:end])
                at = end
            elif at + 1 == len(held) or (held[at + 1] == "u" and at + _ESCAPE > len(held)):
                break  # the rest of it is still to come
            elif held[at + 1] == "u" and _HEX.fullmatch(held, at + 2, at + _ESCAPE):
                out.append(self._character(chr(int(held[at + 2 : at + _ESCAPE], 16))))
                at += _ESCAPE
            else:
                out.append(self.finish() + _SIMPLE.get(held[at + 1], held[at + 1]))
                at += 2
        self._held = held[at:]
        return "".join(out)

    def _character(self, unit: str) -> str:
        """A character from one or two units of UTF-16."""
        if self._high and "\udc00" <= unit <= "\udfff":
            pair, self._high = self._high + unit, ""
            return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        before = self.finish()
        if "\ud800" <= unit <= "\udbff":
            self._high = unit
            return before
        return before + ("\ufffd" if "\udc00" <= unit <= "\udfff" else unit)
