"""Replies that do what a request asks for: call its tools, match its schema. For suites that any model must pass."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from stretto.testing.protocols import HttpReply, prompt_of
from stretto.testing.wire import ReceivedRequest
from stretto.values.tool_calls import ToolCall

_QUOTED = re.compile(r"['\"“]([^'\"“”]+)['\"”]")
_NUMBER = re.compile(r"-?\d+")
_DEEPEST = 8  # levels of a recursive schema


def oblige(received: ReceivedRequest) -> HttpReply:
    """Return the reply of an obliging model, for ``ScriptedServer(oblige)``.

    It calls the tool that it must call, or else the first one, unless the last message is a tool result. With a
    schema it returns an instance, with numbers and quoted words from the question. Otherwise it returns a sentence.
    """
    body = received.body
    tools = dict(_tools(body))
    last = (body.get("messages") or [{}])[-1]
    question = prompt_of({"messages": [last]})
    name = _wanted(body, tools, answered=last.get("role") == "tool" or _holds_result(last))
    if name is not None:
        arguments = json.dumps(_example(tools[name], question, tools[name]), ensure_ascii=False)
        return HttpReply(tool_calls=[ToolCall(name=name, arguments=arguments)])
    if (schema := _schema(body)) is not None:
        return HttpReply(json.dumps(_example(schema, question, schema), ensure_ascii=False))
    if (body.get("response_format") or {}).get("type") == "json_object" or "JSON" in question:
        return HttpReply(json.dumps(dict.fromkeys(_QUOTED.findall(question), "as asked")))
    return HttpReply("Here is what you asked for.")


def _tools(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in body.get("tools") or ():
        function = tool.get("function") or tool
        if "name" in function:
            yield function["name"], function.get("parameters") or function.get("input_schema") or {"type": "object"}


def _wanted(body: Mapping[str, Any], tools: Mapping[str, Any], *, answered: bool) -> str | None:
    """Return the tool to call; ``None`` if there is none."""
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, Mapping):
        named = choice.get("name") or (choice.get("function") or {}).get("name")
        choice = named if named in tools else choice.get("type")
    if choice in tools:
        return str(choice)
    return next(iter(tools), None) if choice in ("required", "any") or (choice == "auto" and not answered) else None


def _holds_result(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    openai = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    return openai or ((body.get("output_config") or {}).get("format") or {}).get("schema")


def _example(schema: Mapping[str, Any], question: str, whole: Mapping[str, Any], depth: int = 0) -> Any:
    """Return an instance of a schema."""
    if "$ref" in schema:
        schema = (whole.get("$defs") or whole.get("definitions") or {}).get(schema["$ref"].rpartition("/")[2], {})
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _example(schema[name][0], question, whole, depth + 1)
    given = [schema["const"]] if "const" in schema else schema.get("enum") or ()
    if given or schema.get("default") is not None:
        return given[0] if given else schema["default"]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        wanted = (schema.get("properties") or {}) if depth <= _DEEPEST else {}
        return {name: _example(each, question, whole, depth + 1) for name, each in wanted.items()}
    if kind == "array":
        return [_example(schema.get("items") or {}, question, whole, depth + 1)] if depth <= _DEEPEST else []
    return _value(kind, question)


def _value(kind: str, question: str) -> Any:
    number, quoted = _NUMBER.search(question), _QUOTED.search(question)
    match kind:
        case "integer" | "number":
            return int(number[0]) if number else 1
        case "boolean":
            return True
        case "null":
            return None
    return quoted[1] if quoted else "as asked"
