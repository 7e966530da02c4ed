"""Parse the calls that a model has written between its markers. Text that is not a call yields none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from stretto.markup.call_forms import FORMS, WRAPPERS, CallText, python_calls, python_value

_MOST = 128  # calls of one answer
_NAMED = re.compile(r"[\w.-]{1,128}")
_CALL_ID = re.compile(r"\[CALL_ID\][\w-]{1,64}")
_BETWEEN = re.compile(r"[\s;,]*")
_MARK = re.compile(r'["\\{}\[\]]')
_OBJECTS = {  # followed by JSON, and an end marker that can be missing
    "<|tool_call|>": "<|/tool_call|>",
    "<|python_tag|>": "",
    "functools[": "",  # of Phi-4-mini
    "<|action_start|><|plugin|>": "<|action_end|>",  # of InternLM
}
BEGINS = ("[TOOL_CALLS]", *WRAPPERS, *_OBJECTS, *(mark for mark in FORMS if mark != "<arg_key>"))
"""What calls begin with in all supported formats, except for bare JSON and bare Python."""
_FUNCTION, _PARAMETER, _ENDS = "<function=", "<parameter=", ("</parameter>", "</function>")
_NEXT_FUNCTION = re.compile(r"(?<=</function>)\s*+(?=<function=)")
_CONSTANTS = {"True": True, "False": False, "None": None}  # as models trained on much Python write them


class ParsedCall(NamedTuple):
    """A call: the name of the tool, and its arguments as JSON."""

    name: str
    arguments: str


class JsonSpan:
    """Finds the end of a JSON object or list in streamed text, reading each character once."""

    def __init__(self, start: int = 0) -> None:
        self._at, self._depth = start, 0
        self._in_text = False
        self._end: int | None = None

    def end(self, text: str) -> int | None:
        """Return the offset after the value that begins at ``start``; ``None``: not yet. ``text``: all so far."""
        at = len(text) if self._end is not None else self._at
        while (found := _MARK.search(text, at)) is not None:
            at, mark = found.end(), found[0]
            if self._in_text:
                if mark == "\\":
                    if at == len(text):  # the escaped character has not arrived yet
                        self._at = found.start()
                        return None
                    at += 1
                elif mark == '"':
                    self._in_text = False
            elif mark == '"':
                self._in_text = True
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self._end = at
                    break
        self._at = len(text)
        return self._end


class Tools:
    """The tools of one request, and parsers of the calls to them."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        functions = [tool.get("function") or {} for tool in tools]
        self._parameters: dict[str, Mapping[str, Any]] = {
            str(each.get("name")): each.get("parameters") or {} for each in functions
        }

    def of_objects(self, text: str) -> list[ParsedCall]:
        """Read consecutive objects, or a list of them; none if there is anything else.

        One is ``{"name": ..., "arguments": {...}}``; Llama calls the arguments parameters.
        """
        text, calls, at = text.strip(), list[ParsedCall](), 0
        while at < len(text):
            end = JsonSpan(at).end(text) if text[at] in "{[" else None
            if end is None or len(calls) >= _MOST:
                return []
            value = _value(text[at:end])
            for each in value if isinstance(value, list) and value else [value]:
                if (call := self._of_value(each)) is None:
                    return []
                calls.append(call)
            at = _end_of(_BETWEEN, text, end)
        return calls if len(calls) <= _MOST else []

    def of_marked(self, text: str) -> list[ParsedCall]:
        """Read calls from one of `BEGINS` up to the end of the answer; none if there is anything else."""
        text = text.strip()
        begin = next((mark for mark in BEGINS if text.startswith(mark)), "")
        rest = text.removeprefix(begin)
        if begin == "[TOOL_CALLS]":
            return self.of_mistral(rest)
        if begin in _OBJECTS:
            return self.of_objects(("[" if begin.endswith("[") else "") + rest.strip().removesuffix(_OBJECTS[begin]))
        # Qwen3-Coder omits the marker before a function, but not the one after it.
        wrapper, wrapped = ("<tool_call>", f"<tool_call>{text}") if begin == _FUNCTION else (begin, text)
        if wrapper in WRAPPERS and "<arg_key>" not in text and (calls := self._of_wrapped(wrapped, wrapper)):
            return calls
        form = FORMS.get("<arg_key>" if begin == "<tool_call>" else begin)
        return self._of_texts(form.read, text) if form is not None else []

    def of_python(self, text: str) -> list[ParsedCall]:
        """Read a list of calls in Python syntax."""
        if not text.lstrip().startswith("["):
            return []
        return self._of_texts(lambda text: (CallText(*call) for call in python_calls(text)), text)

    def _of_wrapped(self, text: str, begin: str) -> list[ParsedCall]:
        """Read bodies between one of `WRAPPERS` and its end: JSON, or elements."""
        calls: list[ParsedCall] = []
        before, *parts = text.split(begin, _MOST)
        for part in parts:
            body, ended, beyond = part.rpartition(f"</{begin[1:]}")
            body = (body if ended else beyond).strip()
            found = self.of_elements(body) or self.of_objects(body)
            if not found or (ended and beyond.strip()):
                return []
            calls += found
        return [] if before.strip() else calls

    def _of_texts(self, read: Callable[[str], Iterator[CallText]], text: str) -> list[ParsedCall]:
        calls: list[ParsedCall] = []
        try:
            for each in read(text):
                call = self._of_value({"name": each.name, "arguments": self._arguments_of(each)})
                if call is None or len(calls) >= _MOST:
                    return []
                calls.append(call)
        except (ValueError, RecursionError):  # a model wrote it
            return []
        return calls

    def _arguments_of(self, call: CallText) -> Any:
        if isinstance(call.arguments, str):
            return _value(call.arguments)
        if call.typed:
            return call.arguments
        kinds = self._parameters.get(call.name, {}).get("properties")
        kinds = kinds if isinstance(kinds, Mapping) else {}
        return {
            key: _typed(_unwrapped(value), kinds.get(key)) if isinstance(value, str) else value
            for key, value in call.arguments.items()
        }

    def of_mistral(self, text: str) -> list[ParsedCall]:
        """Read what follows Mistral's marker: a list of objects, or names followed by their arguments."""
        calls: list[ParsedCall] = []
        for part in map(str.strip, text.split("[TOOL_CALLS]", _MOST)):
            name = _NAMED.match(part)
            if name is None:
                if not (found := self.of_objects(part)):
                    return []
                calls += found
                continue
            at = _end_of(_CALL_ID, part, name.end())
            if (call := self.of_arguments(name[0], part[at:].removeprefix("[ARGS]"))) is None:
                return []
            calls.append(call)
        return calls

    def of_arguments(self, name: str, text: str) -> ParsedCall | None:
        """Read arguments that follow the name of their tool."""
        value = _value(text)
        return self._of_value({"name": name, "arguments": value}) if isinstance(value, dict) else None

    def of_elements(self, text: str) -> list[ParsedCall]:
        """Read ``<function=name>``, ``<parameter=name>`` and their ends. Values are JSON unless the type is string."""
        body = text.strip()
        for parts in ([body], _NEXT_FUNCTION.split(body, _MOST)):
            calls = [call for each in parts if (call := self._of_element(each)) is not None]
            if len(calls) == len(parts):
                return calls
        return []

    def _of_element(self, body: str) -> ParsedCall | None:
        if not (body.startswith(_FUNCTION) and body.endswith(_ENDS[1])):
            return None
        name, found, body = body[len(_FUNCTION) : -len(_ENDS[1])].partition(">")
        name, kinds = name.strip(), self._parameters.get(name.strip(), {}).get("properties")
        if not found or name not in self._parameters:
            return None
        before, *parameters = body.split(_PARAMETER)
        arguments: dict[str, Any] = {}
        for each in parameters:
            key, found, value = each.partition(">")
            value, ended, beyond = value.rpartition(_ENDS[0])
            if not (found and ended) or beyond.strip():
                return None
            kind = kinds.get(key.strip()) if isinstance(kinds, Mapping) else None
            arguments[key.strip()] = _typed(value.removeprefix("\n").removesuffix("\n"), kind)
        return None if before.strip() else self._of_value({"name": name, "arguments": arguments})

    def _of_value(self, value: Any) -> ParsedCall | None:
        if not isinstance(value, dict) or not isinstance(name := value.get("name"), str):
            return None
        given = value.get("arguments", value.get("parameters")) or {}
        if isinstance(given, str):  # some models write the object as a string
            given = _value(given)
        if name not in self._parameters or not isinstance(given, dict):
            return None
        known = self._parameters[name].get("properties") or {}
        if "arguments" not in value and isinstance(given.get("properties"), dict) and "properties" not in known:
            return None  # the tool is described, not called
        try:
            written = json.dumps(given, ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError):  # endless digits or nesting
            return None
        return ParsedCall(name, written)


def _unwrapped(text: str) -> str:
    """Return a text without the two line ends around it; a single one belongs to it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "\n" else text


def _typed(text: str, kind: Any) -> Any:
    """Return the value of an argument that was written as text."""
    wanted = _kinds_of(kind)
    if "string" in wanted and not ("null" in wanted and text.strip() in ("null", "None")):
        return text
    value = _value(text)
    if value is _NO_VALUE:
        return _CONSTANTS.get(text.strip(), text) if wanted else text
    return value


def _kinds_of(schema: Any) -> list[Any]:
    """Return the types that a schema allows; Python's optional arguments have more than one."""
    if not isinstance(schema, Mapping):
        return []
    several = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    kinds = schema.get("type", [each.get("type") for each in several if isinstance(each, Mapping)])
    return kinds if isinstance(kinds, list) else [kinds]


_NO_VALUE = object()
_READERS: tuple[Callable[[str], Any], ...] = (partial(json.loads, strict=False), python_value)


def undoubled(text: str) -> str:
    """Remove a second pair of braces around an object.

    Qwen2.5's template shows calls this way, and its small models copy that.
    """
    text = text.strip()
    return text[1:-1] if text[:1] == "{" and text[1:].lstrip()[:1] == "{" and text.endswith("}") else text


def _value(text: str) -> Any:
    """Parse JSON, whose strings can contain line breaks, or a list or dict in Python syntax."""
    for read in _READERS:
        with suppress(ValueError, RecursionError):  # a model wrote it
            return read(undoubled(text))
    return _NO_VALUE


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an answer that became certain since the last call.

    Attributes:
        text: of the answer.
        thought: the reasoning before it, once it is complete.
        thinking: the model has reasoned.
        calls: of tools.
    """

    text: str = ""
    thought: str = ""
    thinking: bool = False
    calls: tuple[ParsedCall, ...] = ()


def held_back(text: str, marks: Sequence[str]) -> int:
    """Return how many characters at the end of a text could begin one of these markers."""
    longest = max(map(len, marks), default=1)
    for size in range(min(longest - 1, len(text)), 0, -1):
        end = text[-size:]
        if any(mark.startswith(end) for mark in marks):
            return size
    return 0
