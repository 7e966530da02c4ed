"""Tools of local models: what a chat template takes, and the calls in what a model writes.

Two ways to write a call are read: a JSON object between ``<tool_call>`` tags (Hermes, Qwen), and a JSON object that is
the whole answer (Llama 3). A required call is constrained to a JSON schema, and is the whole answer too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stretto.backends.base import Chunk, ModelRequest
from stretto.errors import RequestRejectedError
from stretto.local_engine.model.source import Source
from stretto.tool_calls import ToolCallFragment

__all__ = ["Calling", "check_template", "forced_schema", "may_take_tools", "tools_shown", "turns_of"]

_BEGIN, _END = "<tool_call>", "</tool_call>"
_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


def takes_tools(template: object) -> bool:
    """Whether a chat template shows tools, and in a form whose calls are read here."""
    text = str(template)
    tagged = _BEGIN in text and "<function=" not in text
    return "tools" in text and (tagged or ("parameters" in text and "tool_call" in text and _BEGIN not in text))


def may_take_tools(source: Source) -> bool:
    """The same before the model is loaded; true for a model that is not on this machine yet."""
    if source.file is not None:
        return takes_tools(source.chat_template())
    if source.folder is None:
        return True
    return any(takes_tools(_text(source.folder / name)) for name in _FILES)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def turns_of(prompt: ModelRequest) -> list[dict[str, Any]]:
    """The messages as chat templates take them; the arguments of tool calls as objects."""
    turns: list[dict[str, Any]] = []
    for message in prompt.messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            turn["tool_calls"] = [_call(call) for call in message.tool_calls]
        if message.role == "tool":
            turn |= {"tool_call_id": message.tool_call_id, **({"name": message.name} if message.name else {})}
        turns.append(turn)
    return turns


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    with suppress(ValueError, RecursionError):  # a model wrote it; what is not JSON stays unchanged
        function["arguments"] = json.loads(function.get("arguments") or "{}")
    return {**call, "function": function}


def tools_shown(prompt: ModelRequest) -> list[dict[str, Any]]:
    """The tools that the model is shown."""
    return [] if prompt.tool_choice == "none" else [dict(tool) for tool in prompt.tools]


def check_template(template: object, prompt: ModelRequest, backend: str) -> None:
    """Raise `RequestRejectedError` for tools, or calls of them, that the template has no place for."""
    needed = tools_shown(prompt) or any(each.tool_calls or each.role == "tool" for each in prompt.messages)
    if needed and not takes_tools(template):
        raise RequestRejectedError(
            f"{backend} takes no tools: its chat template has no place for them, or writes calls in a form that is not "
            "read here. Leave them out, or use another model.",
            backend=backend,
        )


def forced_schema(prompt: ModelRequest, backend: str) -> dict[str, Any] | None:
    """The JSON schema of a required call; ``None`` where the model decides.

    Raises `RequestRejectedError` for a choice that is none of the tools.
    """
    choice = prompt.tool_choice
    if not prompt.tools or choice in (None, "auto", "none"):
        return None
    wanted = None if choice == "required" else _name(choice if isinstance(choice, Mapping) else {})
    functions = [tool.get("function") or {} for tool in prompt.tools]
    allowed = [each for each in functions if wanted in (None, each.get("name"))]
    if not allowed:
        raise RequestRejectedError(
            f"tool_choice={choice!r} names none of the tools of this request. {backend} can be asked for one of them, "
            'or for "auto", "none", "required".',
            backend=backend,
        )
    return {"anyOf": [_schema(each) for each in allowed]} if len(allowed) > 1 else _schema(allowed[0])


def _name(choice: Mapping[str, Any]) -> Any:
    return (choice.get("function") or {}).get("name", "")


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    arguments = function.get("parameters") or {"type": "object", "properties": {}}
    if arguments.get("type") == "object":
        arguments = {"additionalProperties": False, **arguments}
    properties = {"name": {"const": function.get("name")}, "arguments": arguments}
    required = ["name", "arguments"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class Calling(AsyncIterator[Chunk]):
    """Takes the tool calls out of the text of a generation.

    Args:
        chunks: the generation.
        prompt: its tools.
        whole: the whole answer is one call.
    """

    def __init__(self, chunks: AsyncIterator[Chunk], prompt: ModelRequest, *, whole: bool) -> None:
        self._chunks = chunks
        self._names = {(tool.get("function") or {}).get("name") for tool in prompt.tools}
        self._whole = whole
        self._held = ""
        self._begun = False  # text has been given: the answer is not one object
        self._calls = 0

    async def __anext__(self) -> Chunk:
        chunk = await anext(self._chunks)
        self._held += chunk.text
        text, calls = self._certain(final=chunk.finish_reason is not None)
        reason = "tool_calls" if self._calls and chunk.finish_reason == "stop" else chunk.finish_reason
        return replace(chunk, text=text, tool_calls=calls, finish_reason=reason)

    def _certain(self, *, final: bool) -> tuple[str, tuple[ToolCallFragment, ...]]:
        """What of the text that is held is certain, as text or as calls."""
        if self._whole or (not self._begun and not self._calls and self._held.lstrip().startswith("{")):
            if not final:
                return "", ()
            call = self._call(self._held)
            return ("", (call,)) if call else (self._rest(), ())
        said, calls = "", []
        while (at := self._held.find(_BEGIN)) >= 0 and (end := self._held.find(_END, at)) >= 0:
            call = self._call(self._held[at + len(_BEGIN) : end])
            said += self._held[:at] if call else self._held[: end + len(_END)]
            calls += [call] if call else []
            self._held = self._held[end + len(_END) :]
        if final:
            said += self._rest()
        elif _BEGIN not in self._held:
            keep = next((size for size in range(len(_BEGIN) - 1, 0, -1) if self._held.endswith(_BEGIN[:size])), 0)
            keep = max(keep, len(self._held) - len(self._held.rstrip()))  # white space before a call means nothing
            said += self._held[: len(self._held) - keep]
            self._held = self._held[len(self._held) - keep :]
        if self._calls and not said.strip():
            said = ""
        self._begun = self._begun or bool(said.strip())
        return said, tuple(calls)

    def _rest(self) -> str:
        held, self._held = self._held, ""
        return held

    def _call(self, text: str) -> ToolCallFragment | None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict) or said.get("name") not in self._names:
            return None
        arguments = said.get("arguments", said.get("parameters")) or {}
        self._calls += 1
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return ToolCallFragment(self._calls - 1, f"call_{secrets.token_hex(8)}", said["name"], written)
