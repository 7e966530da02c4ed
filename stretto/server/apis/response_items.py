"""The input of Responses, its items and tools, in the form of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stretto.foundation.arguments import safe_repr
from stretto.server.apis.bodies import read_turns
from stretto.server.problems import Problem
from stretto.values.messages import Message

_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "summary_text": "text", "refusal": "refusal"}


def conversation_of(given: str | Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages that the items stand for. Raises `Problem` for an item that cannot be used."""
    if isinstance(given, str):
        return (Message(role="user", content=given),)
    messages: list[dict[str, Any]] = []
    places: list[int] = []
    for place, item in enumerate(given):
        kind = item.get("type", "message")
        if kind == "message":
            content = item.get("content")
            messages.append({"role": item.get("role"), "content": _content(content, f"input.{place}.content")})
        elif kind in ("function_call", "custom_tool_call"):
            call = _call(item, kind)
            if messages and messages[-1]["role"] == "assistant":  # the calls of one turn belong together
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            said = _content(item.get("output"), f"input.{place}.output")
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": said})
        elif kind != "reasoning":  # which only the model that thought can read
            raise _unknown(f"input.{place}.type", kind)
        places += [place] * (len(messages) - len(places))
    return read_turns(messages, "input", places)


def tools_of(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools. Raises `Problem` for those that OpenAI calls itself."""
    found = []
    for place, tool in enumerate(tools):
        kind = tool.get("type")
        if kind not in ("function", "custom"):
            raise _unknown(f"tools.{place}.type", kind)
        inner = {name: value for name, value in tool.items() if name != "type" and value is not None}
        found.append({"type": kind, kind: inner})
    return found


def tool_choice_of(choice: str | Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    """The choice among the tools."""
    if isinstance(choice, Mapping) and choice.get("type") in ("function", "custom") and "name" in choice:
        kind = choice["type"]
        return {"type": kind, kind: {"name": choice["name"]}}
    return dict(choice) if isinstance(choice, Mapping) else choice


def _content(content: Any, where: str) -> Any:
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and kind in _PARTS:
            parts.append({"type": "text", "text": part.get(_PARTS[kind], "")})
        elif kind == "input_image" and part.get("image_url"):
            detail = {} if part.get("detail") is None else {"detail": part["detail"]}
            parts.append({"type": "image_url", "image_url": {"url": part["image_url"]} | detail})
        elif kind == "input_file":
            file = {name: part[name] for name in ("file_data", "file_id", "filename") if part.get(name)}
            parts.append({"type": "file", "file": file})
        elif kind == "input_audio":
            parts.append(dict(part))
        else:
            raise _unknown(where, kind)
    return parts


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if kind == "custom_tool_call":
        custom = {"name": item.get("name"), "input": item.get("input") or ""}
        return {"id": item.get("call_id"), "type": "custom", "custom": custom}
    function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
    return {"id": item.get("call_id"), "type": "function", "function": function}


def _unknown(where: str, kind: Any) -> Problem:
    return Problem(
        400,
        f"{where}={safe_repr(kind)} cannot be used here: only OpenAI itself knows what it is. Leave it out, or ask for "
        "a model of OpenAI's under its own name.",
        param=where,
        code="unsupported_value",
    )
