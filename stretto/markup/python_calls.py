"""Reads calls that a model has written as Python: ``[weather(place="Bergen", days=2), now()]``.

Only names with arguments by keyword are read, and of values texts, numbers, lists, dicts and the three constants.
Nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["python_calls", "python_value"]

_TOKEN = re.compile(
    r"""\s*+(?:(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')|(?P<word>[^\W\d][\w.-]*+)"""
    r"""|(?P<number>-?+\d++(?:\.\d++)?+(?:[eE][+-]?+\d++)?+)|(?P<sign>[\[\](){},=:]))""",
    re.DOTALL,
)
_CONSTANTS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_DEEPEST = 40
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def python_calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give name and arguments of each call of a list, or of calls one a line. Raise `ValueError` for all else."""
    tokens = _Tokens(text)
    listed = tokens.takes("[")
    while True:
        name = tokens.word()
        if printed := name == "print" and tokens.takes("("):
            name = tokens.word()
        yield name, tokens.arguments()
        if printed:
            tokens.must(")")
        tokens.takes(",")
        if tokens.at_end or (listed and tokens.takes("]")):
            break
    if not tokens.at_end:
        raise ValueError("something follows the calls")


def python_value(text: str) -> Any:
    """Give the list or dict that a text is. Raise `ValueError` for all else."""
    tokens = _Tokens(text)
    value = tokens.value(0)
    if not (tokens.at_end and isinstance(value, (dict, list))):
        raise ValueError("neither a list nor a dict")
    return value


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text, self._at = text.strip(), 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def _next(self) -> re.Match[str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise ValueError(f"not Python: {self._text[self._at : self._at + 20]!r}")
        return found

    def takes(self, sign: str) -> bool:
        """Go on behind a sign, if it is the next one."""
        if self.at_end or (found := self._next())["sign"] != sign:
            return False
        self._at = found.end()
        return True

    def must(self, sign: str) -> None:
        if not self.takes(sign):
            raise ValueError(f"{sign} is missing")

    def word(self) -> str:
        found = self._next()
        if found["word"] is None:
            raise ValueError("a name is missing")
        self._at = found.end()
        return found["word"]

    def arguments(self) -> dict[str, Any]:
        self.must("(")
        given: dict[str, Any] = {}
        while not self.takes(")"):
            key = self.word()
            self.must("=")
            given[key] = self.value(0)
            if not self.takes(","):
                self.must(")")
                break
        return given

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        found = self._next()
        self._at = found.end()
        if found["text"] is not None:
            return _ESCAPE.sub(_unescaped, found["text"][1:-1])
        if found["number"] is not None:
            return json.loads(found["number"])
        if found["word"] in _CONSTANTS:
            return _CONSTANTS[found["word"]]
        if (opening := found["sign"]) not in _CLOSING:
            raise ValueError("a value is missing")
        values: list[Any] = []
        keys: list[str] = []
        while not self.takes(_CLOSING[opening]):
            value = self.value(depth + 1)
            if opening == "{":
                self.must(":")
                keys.append(str(value))
                value = self.value(depth + 1)
            values.append(value)
            if not self.takes(","):
                self.must(_CLOSING[opening])
                break
        return dict(zip(keys, values, strict=True)) if opening == "{" else values


def _unescaped(found: re.Match[str]) -> str:
    sign = found[1]
    if len(sign) > 1:
        return chr(int(sign[1:], 16))
    return _ESCAPED.get(sign, sign if sign in "\\'\"" else found[0])
