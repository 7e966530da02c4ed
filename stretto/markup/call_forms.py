"""The forms in which families of models write calls, each from its first mark to the end of the answer.

A reader takes that text and gives names and arguments. It raises `ValueError` where anything else is among the calls:
then all of it is text. A form is known by its first mark; ends may be missing, since a server may stop there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from stretto.markup.python_calls import python_calls

__all__ = ["FORMS", "Arguments", "CallText", "Written"]

Arguments = dict[str, Any] | str
"""Of a call: the object, or its JSON."""


class CallText(NamedTuple):
    """A call as it was written; ``values`` that were written as text get the type that the tool asks for.

    Attributes:
        name: of the tool.
        arguments: the object, or its JSON.
        typed: whether the arguments have their types; else all values are texts.
    """

    name: str
    arguments: Arguments
    typed: bool = True


class Written(NamedTuple):
    """A form of calls.

    Attributes:
        read: gives the calls of a text that begins with the mark.
        marks: all marks of the form, which control tokens may stand for.
    """

    read: Callable[[str], Iterator[CallText]]
    marks: tuple[str, ...]


def _inside(text: str, begin: str, end: str) -> str:
    """What stands between two marks, the second of which may be missing at the end of the text."""
    body, found, beyond = text.strip().removeprefix(begin).rpartition(end)
    if not found:
        return beyond
    return body if not beyond.strip() else _refuse(beyond)


def _each(text: str, begin: str, end: str) -> Iterator[str]:
    """What stands between the marks of each of several calls."""
    before, *parts = text.split(begin)
    if before.strip() or not parts:
        _refuse(before)
    for part in parts:
        yield _inside(part, "", end)


def _refuse(text: str) -> str:
    raise ValueError(f"{text[:40]!r} is no call")


def _deepseek(text: str) -> Iterator[CallText]:
    """Of DeepSeek V3 and R1, whose arguments stand in a fence, and of V3.1, whose arguments follow the name."""
    body = _inside(text, _DEEPSEEK[0], _DEEPSEEK[1])
    for call in _each(body, _DEEPSEEK[2], _DEEPSEEK[3]):
        name, found, arguments = call.partition(_DEEPSEEK[4])
        if not found:
            _refuse(call)
        if name.strip() == "function" and not arguments.lstrip().startswith("{"):
            name, _, arguments = arguments.partition("\n")
            arguments = arguments.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        yield CallText(name.strip(), arguments)


def _elements(prefix: str, *outer: str) -> Callable[[str], Iterator[CallText]]:
    """Calls as elements with names in quotes: of MiniMax, and of DeepSeek V3.2, which puts a mark before each."""

    def read(text: str) -> Iterator[CallText]:
        for call in _each(_inside(text, *outer), f"<{prefix}invoke name=", f"</{prefix}invoke>"):
            name, _, body = call.partition(">")
            arguments: dict[str, Any] = {}
            if body.strip():
                for parameter in _each(body, f"<{prefix}parameter name=", f"</{prefix}parameter>"):
                    head, found, value = parameter.partition(">")
                    key, *attributes = head.replace('"', " ").split() or [""]
                    if not found:
                        _refuse(parameter)
                    arguments[key] = json.loads(value) if attributes == ["string=", "false"] else value
            yield CallText(name.strip().strip('"'), arguments, typed=False)

    return read


def _gemma(begin: str, end: str, quote: str, result: str) -> Callable[[str], Iterator[CallText]]:
    """Calls of Gemma 4 and FunctionGemma: ``call:name{key:value}``, texts between their own marks."""

    def read(text: str) -> Iterator[CallText]:
        for call in _each(text.partition(result)[0], begin, end):
            name, found, body = call.strip().removeprefix("call:").partition("{")
            if not found:
                _refuse(call)
            pieces = ("{" + body).split(quote)
            for place, piece in enumerate(pieces):
                pieces[place] = json.dumps(piece) if place % 2 else _BARE_KEY.sub(r'\1"\2":', piece)
            yield CallText(name.strip(), "".join(pieces))

    return read


def _kimi(text: str) -> Iterator[CallText]:
    """Of Kimi K2; a name is that of the tool with a number behind it."""
    for call in _each(_inside(text, _KIMI[0], _KIMI[1]), _KIMI[2], _KIMI[3]):
        name, found, arguments = call.partition(_KIMI[4])
        if not found:
            _refuse(call)
        yield CallText(name.strip().removeprefix("functions.").rpartition(":")[0] or name.strip(), arguments)


def _cohere(text: str) -> Iterator[CallText]:
    """Of Command R7B and A: a list of objects with other names."""
    value = json.loads(_inside(text, *_COHERE))
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict):
            raise ValueError("a call is an object")  # noqa: TRY004 - a model wrote it
        yield CallText(str(call.get("tool_name")), call.get("parameters") or {})


def _python(begin: str, end: str) -> Callable[[str], Iterator[CallText]]:
    """Calls as Python writes them, between two marks: of LFM2, Olmo 3 and Gemma 3."""

    def read(text: str) -> Iterator[CallText]:
        for name, arguments in python_calls(_inside(text, begin, end)):
            yield CallText(name, arguments)

    return read


def _glm(text: str) -> Iterator[CallText]:
    """Of GLM: the name, then keys and values as elements."""
    for call in _each(text, "<tool_call>", "</tool_call>"):
        name, *pairs = call.split("<arg_key>")
        arguments: dict[str, Any] = {}
        for pair in pairs:
            key, found, value = pair.partition("</arg_key>")
            _, begun, value = value.partition("<arg_value>")
            if not (found and begun):
                _refuse(pair)
            arguments[key.strip()] = _inside(value, "", "</arg_value>")
        yield CallText(name.strip(), arguments, typed=False)


def _functions(text: str) -> Iterator[CallText]:
    """Of Llama 3.1 for tools of its users: arguments as JSON in an element of the name."""
    for call in _each(text, "<function=", "</function>"):
        name, found, arguments = call.partition(">")
        if not found:
            _refuse(call)
        yield CallText(name.strip(), arguments)


_BARE_KEY = re.compile(r"([{,]\s*+)([\w.-]++)\s*+:")
_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
_KIMI = (
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"),
    "<|tool_call_argument_begin|>",
)
_COHERE = ("<|START_ACTION|>", "<|END_ACTION|>")
_DSML = ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>")
_MINIMAX = ("<minimax:tool_call>", "</minimax:tool_call>")
_GEMMA = ("<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_response>")
_FUNCTION_GEMMA = ("<start_function_call>", "<end_function_call>", "<escape>", "<start_function_response>")
_LFM = ("<|tool_call_start|>", "<|tool_call_end|>")
_OLMO = ("<function_calls>", "</function_calls>")

FORMS: Mapping[str, Written] = {
    _DEEPSEEK[0]: Written(_deepseek, _DEEPSEEK),
    _DSML[0]: Written(_elements("｜DSML｜", *_DSML), ("｜DSML｜",)),
    _MINIMAX[0]: Written(_elements("", *_MINIMAX), _MINIMAX),
    _GEMMA[0]: Written(_gemma(*_GEMMA), _GEMMA),
    _FUNCTION_GEMMA[0]: Written(_gemma(*_FUNCTION_GEMMA), _FUNCTION_GEMMA),
    _KIMI[0]: Written(_kimi, _KIMI),
    _COHERE[0]: Written(_cohere, _COHERE),
    _LFM[0]: Written(_python(*_LFM), _LFM),
    _OLMO[0]: Written(_python(*_OLMO), _OLMO),
    "```tool_code": Written(_python("```tool_code", "```"), ()),
    "<arg_key>": Written(
        _glm, ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
    ),
    "<function=": Written(_functions, ()),
}
"""The forms by the mark that a text, or a chat template, is known by. GLM's begins with ``<tool_call>``."""
