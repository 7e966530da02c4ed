"""Message content in the formats of OpenAI and Anthropic, converted to OpenAI's.

Blocks that OpenAI's format lacks, such as Anthropic's thinking and citations, are kept unchanged: a caller that sends
them talks to Anthropic, and gets them back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from stretto.foundation.arguments import safe_repr
from stretto.foundation.surrogates import fix_surrogates
from stretto.values.errors import InvalidRequestError

Block = Mapping[str, Any]


def mended(value: Any) -> Any:
    """Return a JSON value with the surrogates in its texts fixed; objects and lists are copied."""
    if isinstance(value, str):
        return fix_surrogates(value)
    if isinstance(value, Mapping):
        return {fix_surrogates(name) if isinstance(name, str) else name: mended(each) for name, each in value.items()}
    return [mended(each) for each in value] if isinstance(value, list | tuple) else value


def text_of(parts: Sequence[Block]) -> str:
    """Return the texts among the parts, joined by newlines."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def is_plain(part: Block) -> bool:
    """Return whether a part is only text."""
    return part.keys() == {"type", "text"} and part["type"] == "text"


def split_results(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split Anthropic's tool results, which are blocks of a user turn, into separate messages before the rest of it."""
    content = message.get("content")
    if not isinstance(content, list | tuple) or not any(_kind(block) == "tool_result" for block in content):
        return [message]
    results = [
        {
            "role": "tool",
            "tool_call_id": block.get("tool_use_id"),
            "content": block.get("content") or "",
            **{name: value for name, value in block.items() if name in ("is_error", "cache_control")},
        }
        for block in content
        if _kind(block) == "tool_result"
    ]
    rest = [block for block in content if _kind(block) != "tool_result"]
    return [*results, {**message, "content": rest}] if rest else [*results]


def without_calls(content: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parts of a message in OpenAI's form, and the tool calls among Anthropic's blocks.

    Raises `InvalidRequestError` for anything that is not a part.
    """
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in content:
        match _kind(block):
            case "tool_use":
                function = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            case "image":
                parts.append(_image(block))
            case "document":
                parts.append(_document(block))
            case _:
                parts.append({"type": "text", "text": block} if isinstance(block, str) else _part(block))
    return parts, calls


def read_tool(tool: Any) -> dict[str, Any]:
    """Return a tool in OpenAI's form; Anthropic's built-in tools, such as web search, are kept unchanged."""
    if not isinstance(tool, Mapping):
        raise InvalidRequestError(
            f"tools= holds {safe_repr(tool)}, which is not a tool: a Python function, or a mapping with type and "
            "function, in OpenAI's form."
        )
    read: dict[str, Any] = mended(tool)
    if "input_schema" not in read or "function" in read:
        return read
    outer = {name: value for name, value in read.items() if name == "cache_control"}
    inner = {name: value for name, value in read.items() if name in ("name", "description", "strict")}
    return {"type": "function", "function": {**inner, "parameters": read["input_schema"]}, **outer}


def name_of_tool(tool: Mapping[str, Any]) -> str | None:
    """Return the name of a tool in OpenAI's form; ``None`` for a server's built-in tool, which has none."""
    described = tool.get("function") or tool.get("custom") or tool
    name = described.get("name") if isinstance(described, (dict, Mapping)) else None
    return name if isinstance(name, str) else None


def read_tool_choice(choice: Any) -> tuple[Any, dict[str, Any]]:
    """Return a tool choice in OpenAI's form, and the other body fields that Anthropic's form implies."""
    choice = mended(choice)
    if not isinstance(choice, Mapping):
        return choice, {}
    mode = {"auto": "auto", "any": "required", "none": "none"}.get(str(choice.get("type")))
    if mode is None and (choice.get("type") != "tool" or "name" not in choice):
        return choice, {}
    extra = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    return mode or {"type": "function", "function": {"name": choice["name"]}}, extra


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _part(block: Any) -> dict[str, Any]:
    kind = _kind(block)
    if not isinstance(kind, str) or (kind == "text" and not isinstance(block.get("text"), str)):
        raise InvalidRequestError(
            f"A message has a part {safe_repr(block)}, which cannot be read. A part is a string, or a mapping with a "
            'type: {"type": "text", "text": "..."}, {"type": "image_url", ...}.'
        )
    return dict(block)


def _image(block: Block) -> dict[str, Any]:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        url = f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    elif source.get("type") == "url":
        url = source.get("url", "")
    else:
        return dict(block)
    return {"type": "image_url", "image_url": {"url": url}, **_kept_fields(block)}


def _document(block: Block) -> dict[str, Any]:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        data = source.get("data", "")
    elif source.get("type") == "text":
        data = base64.b64encode(str(source.get("data", "")).encode()).decode()
    else:
        return dict(block)
    file = {"filename": block.get("title") or "document", "file_data": f"data:{source.get('media_type')};base64,{data}"}
    return {"type": "file", "file": file, **_kept_fields(block)}


def _kept_fields(block: Block) -> dict[str, Any]:
    """Return the fields that a converted block keeps."""
    return {name: value for name, value in block.items() if name in ("cache_control", "citations", "context")}
