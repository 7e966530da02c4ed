"""The formats in which model families write tool calls, each from its first marker to the end of the answer.

A reader parses that text into names and arguments. It raises `ValueError` if there is anything else between the calls:
then all of it is text. A format is identified by its first marker; end markers can be missing, since a server can stop
there.

Of calls written as Python, ``[weather(place="Bergen", days=2), now()]``, only names with keyword arguments are parsed,
and as values only strings, numbers, lists, dicts and the three constants. Nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Arguments = dict[str, Any] | str
"""The arguments of a call: the object, or its JSON."""


class CallText(NamedTuple):
    """A call as it was written; values written as text get the type that the tool asks for.

    Attributes:
        name: of the tool.
        arguments: the object, or its JSON.
        typed: whether the arguments have their types; otherwise all values are strings.
    """

    name: str
    arguments: Arguments
    typed: bool = True


class Written(NamedTuple):
    """A format of calls.

    Attributes:
        read: yields the calls of a text that begins with the marker.
        marks: all markers of the format, which can be control tokens.
    """

    read: Callable[[str], Iterator[CallText]]
    marks: tuple[str, ...]


def _inside(text: str, begin: str, end: str) -> str:
    """Return the text between two markers, the second of which can be missing at the end of the text."""
    text = text.strip().removeprefix(begin) if begin else text.rstrip()
    body, found, beyond = text.rpartition(end)
    if not found:
        return beyond
    return body if not beyond.strip() else _refuse(beyond)


def _each(text: str, begin: str, end: str) -> Iterator[str]:
    """Yield the text between the markers of each call."""
    before, *parts = text.split(begin)
    if before.strip() or not parts:
        _refuse(before)
    for part in parts:
        yield _inside(part, "", end)


def _refuse(text: str) -> str:
    raise ValueError(f"{text[:40]!r} is no call")


def _deepseek(text: str) -> Iterator[CallText]:
    """Read calls of DeepSeek V3 and R1, with arguments in a fence, and of V3.1, with arguments after the name."""
    body = _inside(text, _DEEPSEEK[0], _DEEPSEEK[1])
    for call in _each(body, _DEEPSEEK[2], _DEEPSEEK[3]):
        name, found, arguments = call.partition(_DEEPSEEK[4])
        if not found:
            _refuse(call)
        if name.strip() == "function" and not arguments.lstrip().startswith("{"):
            name, _, arguments = arguments.partition("\n")
            arguments = arguments.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        yield CallText(name.strip(), arguments)


def _elements(call_tag: str, tag: str, *outer: str) -> Callable[[str], Iterator[CallText]]:
    """Make a reader of calls as elements with quoted names: MiniMax, MiniCPM5, and DeepSeek V3.2 with its prefix."""

    def read(text: str) -> Iterator[CallText]:
        for call in _each(_inside(text, *outer) if outer else text, f"<{call_tag} name=", f"</{call_tag}>"):
            name, _, body = call.partition(">")
            arguments: dict[str, Any] = {}
            if body.strip():
                for parameter in _each(body, f"<{tag} name=", f"</{tag}>"):
                    head, found, value = parameter.partition(">")
                    key, *attributes = head.replace('"', " ").split() or [""]
                    if not found:
                        _refuse(parameter)
                    if value.startswith("<![CDATA[") and value.endswith("]]>"):
                        value = value[len("<![CDATA[") : -len("]]>")]
                    arguments[key] = json.loads(value) if attributes == ["string=", "false"] else value
            yield CallText(name.strip().strip('"'), arguments, typed=False)

    return read


def _gemma(begin: str, end: str, quote: str, result: str) -> Callable[[str], Iterator[CallText]]:
    """Make a reader of calls of Gemma 4 and FunctionGemma: ``call:name{key:value}``, strings in special quotes."""

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
    """Read calls of Kimi K2; a name is that of the tool with a number after it."""
    for call in _each(_inside(text, _KIMI[0], _KIMI[1]), _KIMI[2], _KIMI[3]):
        name, found, arguments = call.partition(_KIMI[4])
        if not found:
            _refuse(call)
        yield CallText(name.strip().removeprefix("functions.").rpartition(":")[0] or name.strip(), arguments)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list, or a single object."""
    value = json.loads(text)
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict):
            raise ValueError("a call is an object")  # noqa: TRY004 - a model wrote it
        yield call


def _cohere(text: str) -> Iterator[CallText]:
    """Read calls of Command R7B and A: a list of objects with different keys."""
    for call in _objects(_inside(text, *_COHERE)):
        yield CallText(str(call.get("tool_name")), call.get("parameters") or {})


def _apertus(text: str) -> Iterator[CallText]:
    """Read calls of Apertus: a list of objects whose only key is the name."""
    for call in _objects(_inside(text, *_APERTUS)):
        ((name, arguments),) = call.items()
        yield CallText(name, arguments)


def _python(begin: str, end: str) -> Callable[[str], Iterator[CallText]]:
    """Make a reader of Python calls between two markers: LFM2, Llama 4, Olmo 3 and Gemma 3; some write JSON there."""

    def read(text: str) -> Iterator[CallText]:
        body = _inside(text, begin, end).strip()
        if body.startswith(("{", "[{")):
            for call in _objects(body):
                yield CallText(str(call.get("name")), call.get("arguments", call.get("parameters")) or {})
            return
        for name, arguments in python_calls(body):
            yield CallText(name, arguments)

    return read


def _glm(text: str) -> Iterator[CallText]:
    """Read calls of GLM: the name, then keys and values as elements."""
    for call in _each(text, "<tool_call>", "</tool_call>"):
        name, *pairs = call.split("<arg_key>")
        arguments: dict[str, Any] = {}
        for pair in pairs:
            key, found, value = pair.partition("</arg_key>")
            _, begun, inner = value.partition("<arg_value>")  # sometimes missing, unlike the closing tag
            if not (found and (begun or "</arg_value>" in value)):
                _refuse(pair)
            arguments[key.strip()] = _inside(inner if begun else value, "", "</arg_value>")
        yield CallText(name.strip(), arguments, typed=False)


def _functions(text: str) -> Iterator[CallText]:
    """Read calls of Llama 3.1 to custom tools: arguments as JSON in an element of the tool's name."""
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
_APERTUS = ("<|tools_prefix|>", "<|tools_suffix|>")
_DSML = ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>")
_DSML_4 = ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>")  # of V4
_MINIMAX = ("<minimax:tool_call>", "</minimax:tool_call>")
_GEMMA = ("<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_response>")
_FUNCTION_GEMMA = ("<start_function_call>", "<end_function_call>", "<escape>", "<start_function_response>")
_LFM = ("<|tool_call_start|>", "<|tool_call_end|>")
_LLAMA_4 = ("<|python_start|>", "<|python_end|>")
_OLMO = ("<function_calls>", "</function_calls>")

WRAPPERS = ("<tool_call>", "<seed:tool_call>", "<longcat_tool_call>", "<tool_calls>", "<TOOLCALL>", "<tools>")
"""Markers around JSON or elements: Hermes and Qwen, Seed-OSS, LongCat, Hunyuan and Jamba and Apriel, Nemotron.

The last one is what Qwen2.5-Coder writes, since its template shows its tools this way.
"""
FORMS: Mapping[str, Written] = {
    _DEEPSEEK[0]: Written(_deepseek, _DEEPSEEK),
    _DSML[0]: Written(_elements("｜DSML｜invoke", "｜DSML｜parameter", *_DSML), ("｜DSML｜",)),
    _DSML_4[0]: Written(_elements("｜DSML｜invoke", "｜DSML｜parameter", *_DSML_4), ("｜DSML｜",)),
    _MINIMAX[0]: Written(_elements("invoke", "parameter", *_MINIMAX), _MINIMAX),
    "<function name=": Written(_elements("function", "param"), ("<function", "</function>", "<param", "</param>")),
    _GEMMA[0]: Written(_gemma(*_GEMMA), _GEMMA),
    _FUNCTION_GEMMA[0]: Written(_gemma(*_FUNCTION_GEMMA), _FUNCTION_GEMMA),
    _KIMI[0]: Written(_kimi, _KIMI),
    _COHERE[0]: Written(_cohere, _COHERE),
    _APERTUS[0]: Written(_apertus, _APERTUS),
    _LFM[0]: Written(_python(*_LFM), _LFM),
    _LLAMA_4[0]: Written(_python(*_LLAMA_4), _LLAMA_4),
    _OLMO[0]: Written(_python(*_OLMO), _OLMO),
    "```tool_code": Written(_python("```tool_code", "```"), ()),
    "<arg_key>": Written(
        _glm, ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
    ),
    "<function=": Written(_functions, ()),
}
"""The formats by the marker that identifies a text or a chat template. GLM's begins with ``<tool_call>``."""


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
    """Yield name and arguments of each call of a list, or of calls one per line. Raises `ValueError` otherwise."""
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
    """Parse a text that is a list or dict. Raises `ValueError` otherwise."""
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
        """Consume a character if it is the next one; return whether it was."""
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
