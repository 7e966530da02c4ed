"""Tool calls that a model wrote as the text of its answer: in code fences, as bare JSON, or in its own markup.

A server without a parser for its model passes such markup on as text.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from stretto.foundation.json_schema import is_deeper, validator_of
from stretto.markup.calls import BEGINS, JsonSpan, ParsedCall, Tools, held_back, undoubled
from stretto.strategies.structured.bare_json import json_in, read_json
from stretto.values.tool_calls import ToolCallFragment

_BEGIN = re.compile(r"(?:(`{3,}+)[ \t]*+(?:json|tool_calls?|tool_code)?[ \t\r]*+\n\s*+)?(?=[{\[])", re.IGNORECASE)
_BEGINS = re.compile(r"`{1,2}|`{3,}+[ \t]*+\w{0,10}[ \t\r]*+(?:\n\s*+)?")  # what can become one
_BLANKS = 40  # characters of white space after text that are held back, since a call could follow
_LEAD = 1_000  # characters before an object; more of them are text, since all are read again with each chunk
_MARKS = re.compile("|".join(map(re.escape, BEGINS)))
_OF_A_CALL = {"name", "arguments", "parameters", "id", "type"}


class WrittenCalls:
    """Holds an answer back while it could consist of tool calls only, and whatever follows the first call marker.

    JSON is a call if each object names a tool of the request and its arguments fit the schema. Text after a marker is a
    call if nothing else follows to the end. All other text is passed on as it streams, since it may be an example. Each
    character is read a few times at most.

    ``tools``: those that the model may call; without any, all is text. ``demanded``: it must call one.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]], *, demanded: bool = False) -> None:
        self._tools = tools
        self._demanded = demanded
        self._holds = bool(tools)
        self._buffer = self._fence = ""
        self._at = 0  # the position after the last complete object and its fence
        self._span: JsonSpan | None = None  # of the object that began last
        self._start = 0
        self._objects: list[str] = []
        self._whole = 0  # of these, those whose fence is closed
        self._tail = ""  # of the text: white space, and what could begin a marker
        self._marked: list[str] = []  # what came since a marker

    @cached_property
    def _parameters(self) -> Mapping[str, Any]:
        """The schemas of the tools by name."""
        described = [tool.get("function") for tool in self._tools if tool.get("type", "function") == "function"]
        return {
            str(each.get("name")): each.get("parameters") for each in described if isinstance(each, (dict, Mapping))
        }

    def feed(self, text: str) -> str:
        if not self._tools:
            return text
        if self._holds:
            self._buffer += text
            return "" if self._may_be_calls() else self._until_mark(self._let_go())
        return self._until_mark(text)

    def release(self) -> str:
        """Return what was held back, as text."""
        rest = self._let_go() + self._tail + "".join(self._marked)
        self._tail, self._marked = "", []
        return rest

    def _let_go(self) -> str:
        text, self._buffer, self._holds = self._buffer, "", False
        return text

    def _until_mark(self, text: str) -> str:
        if self._marked:
            self._marked.append(text)
            return ""
        text = self._tail + text
        if (found := _MARKS.search(text)) is not None:
            shown = text[: found.start()].rstrip()  # white space before a call means nothing
            self._tail, self._marked = "", [text[len(shown) :]]
            return shown
        shown = text[: len(text) - held_back(text, BEGINS)]
        shown = shown[: max(len(shown.rstrip()), len(shown) - _BLANKS)]
        self._tail = text[len(shown) :]
        return shown

    @property
    def only_blanks_follow(self) -> bool:
        """Whether the model has made its calls and written only white space since."""
        following = self._buffer[self._at :]
        return self._whole > 0 and self._span is None and len(following) > _BLANKS and following.isspace()

    def finish(self, *, cut: bool = False) -> tuple[ToolCallFragment, ...]:
        """Return the calls that the answer ends with; none if it is text, which `release` then returns.

        ``cut``: a limit ended it, so only complete calls count.
        """
        if cut:
            found: Sequence[ParsedCall] = self._objects_found()
        elif self._marked:
            found = Tools(self._tools).of_marked("".join(self._marked))
        else:
            tools = Tools(self._tools)
            found = self._objects_found() or tools.of_python(self._buffer) or tools.of_marked(self._buffer)
        if found:
            self.release()
        # Ids have nine characters, as Mistral's servers require.
        return tuple(ToolCallFragment(place, secrets.token_hex(5)[:9], *call) for place, call in enumerate(found))

    def _objects_found(self) -> Sequence[ParsedCall]:
        """Return the JSON calls that the whole answer consists of."""
        if not self._holds or self._buffer[self._at :].strip("` \n") or not self._objects:
            return ()
        values = [_values(each) for each in self._objects]
        if not all(values):  # such as an empty list, or invalid JSON
            return ()
        calls = [self._call(value) for each in values for value in each]
        found = [call for call in calls if call is not None]
        return found if len(found) == len(calls) else ()

    def warning(self, text: str) -> str:
        """Return the warning for an answer whose text contains a call; empty if it contains none."""
        if not any(name in text for name in self._parameters):
            return ""
        named = (value["name"] for each in json_in(text) for value in _values(each) if self._looks_like_one(value))
        if (name := next(named, None) or self._marked_in(text)) is None:
            return ""
        remedy = "With tool_choice='required' the model has to make a call."
        if self._demanded:
            remedy = "Use a model or a server that calls tools."
        return f"The text holds what looks like a call of {name}, and no call was made. {remedy}"

    def _marked_in(self, text: str) -> str | None:
        """Return the tool named after a marker."""
        if (mark := _MARKS.search(text)) is None:
            return None
        return next((name for name in self._parameters if name in text[mark.end() :]), None)

    def _may_be_calls(self) -> bool:
        while True:
            if self._span is None:
                rest = self._buffer[self._at :].lstrip()
                if not rest:
                    return len(self._buffer) - self._at <= _LEAD
                begun = _BEGIN.match(rest)
                if begun is None:
                    return len(rest) <= _LEAD and _BEGINS.fullmatch(rest) is not None
                self._fence, self._start = begun[1] or "", len(self._buffer) - len(rest) + begun.end()
                self._span = JsonSpan(self._start)
            end = self._span.end(self._buffer)
            if end is None:
                return True
            following = self._buffer[end:].lstrip()
            self._objects = [*self._objects[: self._whole], self._buffer[self._start : end]]
            if not following.startswith(self._fence):  # nothing has closed the fence yet; the answer can end here
                self._at = len(self._buffer) - len(following)
                return self._fence.startswith(following)
            self._at = len(self._buffer) - len(following) + len(self._fence)
            self._whole, self._span = len(self._objects), None

    def _looks_like_one(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            return False
        return value["name"] in self._parameters and ("arguments" in value or "parameters" in value)

    def _call(self, value: Any) -> ParsedCall | None:
        """Return name and arguments if they are those of a call."""
        if not self._looks_like_one(value) or not value.keys() <= _OF_A_CALL:
            return None
        name, given = value["name"], value.get("arguments", value.get("parameters"))
        if isinstance(given, str):  # some models write the object as a string
            given = next(iter(_values(given)), None)
        if not isinstance(given, dict) or is_deeper(given) or not _fits(given, self._parameters[name]):
            return None
        return ParsedCall(name, json.dumps(given, ensure_ascii=False))


def _values(text: str) -> list[Any]:
    """Return the value of a JSON text, or its elements if it is a list; empty for invalid JSON."""
    try:
        value = read_json(undoubled(text), strict=False)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else [value]


def _fits(arguments: dict[str, Any], schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    try:
        fits: bool = validator_of(schema).is_valid(arguments)
    except (ImportError, ValueError, TypeError):  # then the tool rejects them
        return True
    return fits
