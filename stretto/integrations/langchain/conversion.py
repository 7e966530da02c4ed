"""Converts LangChain's messages and documents into Stretto's, and answers into LangChain's types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document as LangChainDocument
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)
from langchain_core.messages import ToolCall as LangChainToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call, tool_call, tool_call_chunk

from stretto.values.answer import SECTION_FIELDS, Answer, Usage
from stretto.values.document import Document
from stretto.values.tool_calls import ToolCall, ToolCallFragment, turn_of

_ROLES: dict[type[BaseMessage], str] = {  # chunks of a stream are of their subclasses
    HumanMessage: "user",
    AIMessage: "assistant",
    SystemMessage: "system",
    ToolMessage: "tool",
    FunctionMessage: "function",
}
_CALL_BLOCKS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call"})  # also in the message's tool calls
_OF_TEXT = frozenset({"type", "text", "cache_control"})
THOUGHTS = "thoughts"  # in additional_kwargs: what the model's server needs back
CALL_FIELDS = "call_fields"  # the same for each call, by its id
_ONE_ARGUMENT = "__arg1"  # LangChain integrations' name for the input of a tool that takes a string


def turns_of(messages: Iterable[BaseMessage]) -> list[dict[str, Any]]:
    """Return a conversation in OpenAI's format; blocks that only Anthropic has stay unchanged."""
    return [_turn(message) for message in messages]


def documents_of(documents: Any) -> Any:
    """Return a retriever's documents in a form that Stretto accepts; others stay unchanged."""
    if isinstance(documents, LangChainDocument):
        about = documents.metadata
        source = str(about.get("source") or documents.id or "")
        title = about.get("title") or Path(source).name
        return Document(text=documents.page_content, title=str(title), source=source)
    if isinstance(documents, str | Path | Document) or not isinstance(documents, Sequence):
        return documents
    return [documents_of(each) for each in documents]


def usage_of(usage: Usage) -> UsageMetadata:
    """Return an answer's usage, summed over all its branches."""
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens, cache_creation=usage.cache_write_tokens),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens),
    )


def metadata_of(answer: Answer, finish_reason: str | None = None) -> dict[str, Any]:
    """Return what LangChain shows of an answer besides its text: route and reason, what is missing, the cost."""
    sections = [branch.model_dump(include=SECTION_FIELDS) for branch in answer.sections]
    return {
        "model_name": answer.route.backend,
        "finish_reason": finish_reason or answer.finish_reason,
        "strategy": answer.strategy,
        "route": answer.route.model_dump(mode="json"),
        "warnings": [warning.as_json() for warning in answer.warnings],
        "timeline": answer.timeline.model_dump(mode="json"),
        "calls": answer.usage.calls,
        **({"sections": sections} if sections else {}),
        **({"citations": [each.model_dump(mode="json") for each in answer.citations]} if answer.citations else {}),
        **({"agreement": answer.agreement.model_dump(mode="json")} if answer.agreement is not None else {}),
    }


def calls_of(calls: Iterable[ToolCall]) -> tuple[list[LangChainToolCall], list[InvalidToolCall]]:
    """Return the tool calls, and separately those whose arguments are not a JSON object."""
    valid, invalid = [], []
    for call in calls:
        arguments = _arguments(call)
        if arguments is None:
            error = f"The arguments of {call.name} are no JSON object."
            invalid.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=error))
        else:
            valid.append(tool_call(name=call.name, args=arguments, id=call.id))
    return valid, invalid


def chunk_of_call(delta: ToolCallFragment) -> ToolCallChunk:
    """Return a tool call delta as LangChain's chunk."""
    return tool_call_chunk(name=delta.name, args=delta.arguments, id=delta.id, index=delta.index)


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    if call.type == "custom":
        return {_ONE_ARGUMENT: call.arguments}
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _turn(message: BaseMessage) -> dict[str, Any]:
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), message.type)
    if isinstance(message, ChatMessage):
        role = message.role
    turn: dict[str, Any] = {"role": role, "content": message.content}
    if not isinstance(message.content, str):
        turn["content"] = [part for block in message.content for part in _parts(block)]
    if message.name:
        turn["name"] = message.name
    if isinstance(message, AIMessage):
        calls = [
            _openai(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
            for call in message.tool_calls
        ]
        calls += [_openai(call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls]
        if calls:
            fields = message.additional_kwargs.get(CALL_FIELDS) or {}
            turn["tool_calls"] = [{**fields.get(call["id"], {}), **call} for call in calls]
        if refusal := message.additional_kwargs.get("refusal"):
            turn["refusal"] = refusal
        if thoughts := message.additional_kwargs.get(THOUGHTS):
            thinking = turn_of("", (), thoughts)
            content = [turn["content"]] if isinstance(turn["content"], str) else turn["content"]
            turn = {**thinking, **turn, "content": [*(thinking["content"] or ()), *filter(None, content)]}
    if isinstance(message, ToolMessage):
        turn["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            turn["is_error"] = True
    return turn


def _openai(call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments or ""}}


def _parts(block: str | Mapping[str, Any]) -> list[Any]:
    if isinstance(block, str):
        return [block]
    match block.get("type"):
        case kind if kind in _CALL_BLOCKS:
            parts: list[Any] = []
        case "text":  # LangChain adds an index, an id and annotations to it
            parts = [{name: value for name, value in block.items() if name in _OF_TEXT}]
        case "non_standard":
            parts = [block["value"]]
        case "reasoning":  # Anthropic needs back what it has signed; other servers need nothing
            signature = block.get("signature") or (block.get("extras") or {}).get("signature")
            thought = {"type": "thinking", "thinking": block.get("reasoning", ""), "signature": signature}
            parts = [thought] if signature else []
        case _ if is_data_content_block(dict(block)):
            parts = [convert_to_openai_data_block(_named(block))]
        case _:
            parts = [block]
    return parts


def _named(block: Mapping[str, Any]) -> dict[str, Any]:
    """Give a file block a name if it has none: OpenAI requires one."""
    named = {"filename", "extras", "metadata"} & block.keys()
    return {**block, "filename": "document"} if block["type"] == "file" and not named else dict(block)
