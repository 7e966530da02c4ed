"""Converts a conversation from OpenAI's format into Anthropic's: turns of blocks, tools, the tool choice."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.values.errors import RequestRejectedError
from stretto.values.messages import Message

Block = dict[str, Any]

OPENAI_ONLY = frozenset(
    {
        *("logit_bias", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "store", "verbosity"),
        *("reasoning_effort", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "modalities", "audio"),
        *("prediction", "response_format", "functions", "function_call", "web_search_options", "chat_template_kwargs"),
    }
)
"""Fields of OpenAI's and compatible servers' bodies that have no counterpart in the Messages API."""

_ELSEWHERE = frozenset({"user", "parallel_tool_calls"})  # fields with another name there
_DATA_URL = re.compile(r"data:([^;,]+)(?:;[^,]*)?;base64,(.*)", re.DOTALL)
_BLOCK_FIELDS = frozenset({"cache_control", "citations", "context"})
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def extra_of(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that go into the body in addition to those that the library writes."""
    kept = {name: value for name, value in extra.items() if name not in OPENAI_ONLY | _ELSEWHERE}
    if "user" in extra and "metadata" not in kept:
        kept["metadata"] = {"user_id": extra["user"]}
    return kept


def tools_of(prompt: ModelRequest) -> list[Block]:
    """Return the tools; those in Anthropic's own format stay unchanged."""
    return [_tool(tool) for tool in prompt.tools]


def tool_choice_of(prompt: ModelRequest) -> Block | None:
    """Return the tool choice; ``None`` leaves it to the model."""
    given, alone = prompt.tool_choice, prompt.extra.get("parallel_tool_calls") is False
    choice: Block | None = None
    if isinstance(given, str):
        choice = {"type": _CHOICES.get(given, "auto")}
    elif given is not None:
        name = (given.get("function") or {}).get("name")
        choice = dict(given) if name is None else {"type": "tool", "name": name}
    if alone and prompt.tools and (choice or {}).get("type") != "none":
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return choice if prompt.tools else None


def system_of(prompt: ModelRequest) -> str | list[Block] | None:
    """Return the system instructions: a text, or blocks if they contain more than text."""
    instructions = [message for message in prompt.messages if message.role == "system"]
    if any(message.parts for message in instructions):
        return [block for message in instructions for block in _blocks(message, "")]
    return "\n\n".join(message.content for message in instructions) or None


def turns_of(messages: Iterable[Message], backend: str) -> list[Block]:
    """Return the turns without system messages; consecutive turns of one role are merged. Tool results are the user's.

    Raises `RequestRejectedError` for a part that the Messages API has no format for.
    """
    spoken = (message for message in messages if message.role != "system")
    turns = []
    for role, group in groupby(spoken, key=lambda message: "user" if message.role == "tool" else message.role):
        turn = list(group)
        if any(message.parts or message.tool_calls or message.role == "tool" for message in turn):
            content: Any = [block for message in turn for block in _blocks(message, backend)]
        else:
            content = "\n\n".join(message.content for message in turn)
        turns.append({"role": role, "content": content})
    return turns


def _tool(tool: Mapping[str, Any]) -> Block:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    named = {name: function[name] for name in ("name", "description", "strict") if function.get(name) is not None}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {**named, "input_schema": schema, **{name: tool[name] for name in _BLOCK_FIELDS & tool.keys()}}


def _blocks(message: Message, backend: str) -> list[Block]:
    extra = {name: message.extra[name] for name in ("cache_control", "is_error") if name in message.extra}
    blocks = _content(message.parts or [{"type": "text", "text": message.content}], backend)
    if message.role == "tool":
        content = blocks if message.parts else message.content
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content, **extra}]
    return [*blocks, *map(_tool_use, message.tool_calls)]


def _tool_use(call: Mapping[str, Any]) -> Block:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):  # the API only accepts an object; this is a model's output
        arguments = {"arguments": function.get("arguments")}
    return {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": arguments}


def _content(parts: Sequence[Mapping[str, Any]], backend: str) -> list[Block]:
    blocks = []
    for part in parts:
        match part.get("type"):
            case "text" if not part.get("text"):
                continue  # an empty text is rejected
            case "thinking" if not part.get("signature"):
                continue  # from another model's server
            case "image_url":
                blocks.append({"type": "image", "source": _source(_url(part)), **_kept(part)})
            case "file":
                blocks.append(_document(part))
            case "input_audio":
                raise RequestRejectedError(
                    f"The conversation holds sound (input_audio), which {backend} does not read. Leave it out, or use "
                    "a model that does.",
                    backend=backend,
                )
            case _:
                blocks.append(dict(part))
    return blocks


def _url(part: Mapping[str, Any]) -> str:
    image = part.get("image_url")
    return str(image.get("url", "") if isinstance(image, Mapping) else image)


def _source(url: str) -> Block:
    if found := _DATA_URL.fullmatch(url):
        return {"type": "base64", "media_type": found[1], "data": found[2]}
    return {"type": "url", "url": url}


def _document(part: Mapping[str, Any]) -> Block:
    file = part.get("file") or {}
    source: Block = _source(str(file.get("file_data", "")))
    if "file_id" in file:
        source = {"type": "file", "file_id": file["file_id"]}
    elif source.get("media_type") == "text/plain":
        try:
            text = base64.b64decode(source["data"]).decode("utf-8", "replace")
        except binascii.Error:
            text = ""
        source = {"type": "text", "media_type": "text/plain", "data": text}
    title = {"title": file["filename"]} if file.get("filename") else {}
    return {"type": "document", "source": source, **title, **_kept(part)}


def _kept(part: Mapping[str, Any]) -> Block:
    return {name: part[name] for name in _BLOCK_FIELDS & part.keys()}
