"""Prepares a request for a chat template: turns with tool calls and thoughts, tools, and arguments.

A required call is constrained by a JSON schema, and is the whole answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stretto.backends.base import ModelRequest
from stretto.local_engine.model.loading.source import Source
from stretto.markup.forms import PLAIN, MarkupForm, form_of
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import RequestRejectedError
from stretto.values.request import ACCOMPANYING

_HONOURED = frozenset({"top_k", "min_p", "repetition_penalty", "logit_bias", "chat_template_kwargs"})
_MEANINGLESS = ACCOMPANYING - {"reasoning_effort", "verbosity"}  # for accounts and logs, not for the model

_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_SHORT_ID = re.compile("[a-zA-Z0-9]{9}")


def form_in(source: Source) -> MarkupForm | None:
    """Return the markup of a model before it is loaded; ``None`` for one that is not on this machine yet."""
    if source.file is not None:
        return form_of(source.chat_template())
    if source.folder is None:
        return None
    forms = [form_of(_text(source.folder / name)) for name in _FILES]
    return next((form for form in forms if not form.is_plain), PLAIN)


def _text(path: Path) -> str:
    try:
        # Regular files only: a pipe may have no other end.
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""


def turns_of(prompt: ModelRequest, form: MarkupForm) -> list[dict[str, Any]]:
    """Convert messages to what chat templates read: thoughts, and tool calls whose arguments are mostly objects."""
    short = form.calls is not None and form.calls.short_ids
    turns: list[dict[str, Any]] = []
    for message in prompt.messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            text = form.calls is not None and form.calls.text_arguments
            turn["tool_calls"] = [_call(call, short=short, as_text=text) for call in message.tool_calls]
        if message.role == "tool":
            call_id = _shortened(message.tool_call_id) if short else message.tool_call_id
            turn |= {"tool_call_id": call_id, **({"name": message.name} if message.name else {})}
        if message.role == "assistant" and (thought := _thought(message.as_openai())):
            turn |= {"reasoning_content": thought, "thinking": thought}  # templates read one or the other
        turns.append(turn)
    return turns


def _thought(turn: Mapping[str, Any]) -> str:
    """Return the thoughts of a turn from the fields that OpenAI-compatible servers use."""
    found = (turn.get(name) for name in ("reasoning_content", "reasoning"))
    return next((text for text in found if isinstance(text, str) and text), "")


def _call(call: Mapping[str, Any], *, short: bool, as_text: bool) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    with suppress(ValueError, RecursionError):  # written by a model; anything but JSON stays unchanged
        given = function.get("arguments") or "{}"
        function["arguments"] = given if as_text else json.loads(given)
    return {**call, **({"id": _shortened(call.get("id"))} if short else {}), "function": function}


def _shortened(call_id: Any) -> str:
    """Return a call id in the form that Mistral's templates accept."""
    name = str(call_id)
    return name if _SHORT_ID.fullmatch(name) else hashlib.sha256(name.encode(errors="replace")).hexdigest()[:9]


def new_call_id(form: MarkupForm) -> str:
    """Create a call id that the chat template accepts when the call is shown again."""
    short = form.calls is not None and form.calls.short_ids
    return secrets.token_hex(5)[:9] if short else f"call_{secrets.token_hex(8)}"


def template_arguments(prompt: ModelRequest) -> dict[str, Any]:
    """Return the arguments for the chat template: those of the caller, and the effort."""
    effort = prompt.extra.get("reasoning_effort") or prompt.effort
    return {**({} if effort is None else {"reasoning_effort": effort}), **_given(prompt)}


def _given(prompt: ModelRequest) -> Mapping[str, Any]:
    return prompt.extra.get("chat_template_kwargs") or {}


def left_out(template: object, prompt: ModelRequest, backend: str) -> tuple[str, ...]:
    """Return warnings about the caller's fields that neither the engine nor the template reads.

    Also warns about a missing template, without which most models continue a text instead of answering it.
    """
    text = str(template)

    def reads(name: str) -> bool:
        return re.search(rf"\b{re.escape(name)}\b", text) is not None

    names = [each for each in prompt.extra if each not in _HONOURED and each not in _MEANINGLESS]
    names = [each for each in names if each != "reasoning_effort" or not reads(each)]
    unread = [name for name in _given(prompt) if not reads(name)]
    idle = [f"{' and '.join(names)} had no effect: {backend} has nothing like it."] if names else []
    if unread:
        idle.append(f"{' and '.join(unread)} had no effect: the chat template of {backend} does not read it.")
    warnings: list[str] = [AnswerWarning(each, "option") for each in idle]
    if template is None:
        warnings.append(
            f"{backend} has no chat template: it gets the messages as plain text, and may continue them instead "
            "of answering. Use a file of an instruct or chat model."
        )
    return tuple(warnings)


def tools_shown(prompt: ModelRequest) -> list[dict[str, Any]]:
    """Return the tools that the model is shown."""
    return [] if prompt.tool_choice == "none" else [dict(tool) for tool in prompt.tools]


def check_template(form: MarkupForm, prompt: ModelRequest, backend: str) -> None:
    """Raise `RequestRejectedError` for tools or tool calls that the template does not support."""
    needed = tools_shown(prompt) or any(each.tool_calls or each.role == "tool" for each in prompt.messages)
    if needed and form.calls is None:
        raise RequestRejectedError(
            f"{backend} takes no tools: its chat template has no place for them, or writes calls in a form that is not "
            "read here. Leave them out, or use another model.",
            backend=backend,
        )


def forced_schema(prompt: ModelRequest, backend: str) -> dict[str, Any] | None:
    """Return the JSON schema of a required call; ``None`` where the model decides.

    Raises `RequestRejectedError` for a choice that is none of the tools.
    """
    choice = prompt.tool_choice
    if not prompt.tools or choice in (None, "auto", "none"):
        return None
    named = choice.get("function") if isinstance(choice, Mapping) else None
    wanted = None if choice == "required" else (named or {}).get("name", "")
    functions = [tool.get("function") or {} for tool in prompt.tools]
    allowed = [each for each in functions if wanted in (None, each.get("name"))]
    if not allowed:
        raise RequestRejectedError(
            f"tool_choice={choice!r} names none of the tools of this request. {backend} can be asked for one of them, "
            'or for "auto", "none", "required".',
            backend=backend,
        )
    return {"anyOf": [_schema(each) for each in allowed]} if len(allowed) > 1 else _schema(allowed[0])


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    arguments = function.get("parameters") or {"type": "object", "properties": {}}
    if arguments.get("type") == "object":
        arguments = {"additionalProperties": False, **arguments}
    properties = {"name": {"const": function.get("name")}, "arguments": arguments}
    required = ["name", "arguments"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
