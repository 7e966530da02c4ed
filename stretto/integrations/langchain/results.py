"""Converts an answer and its events into LangChain's results and chunks."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from stretto.integrations.langchain.caller_loop import answer_of
from stretto.integrations.langchain.conversion import (
    CALL_FIELDS,
    THOUGHTS,
    calls_of,
    chunk_of_call,
    metadata_of,
    usage_of,
)
from stretto.values.answer import Answer, Choice
from stretto.values.events import Event, TextDelta, ToolCallDelta


def chunk_of(event: Event) -> ChatGenerationChunk | None:
    """Return what an event adds to the message, or ``None``; the last one completes it."""
    message: AIMessageChunk | None = None
    match event:
        case TextDelta():
            message = AIMessageChunk(content=event.text)
        case ToolCallDelta() if not event.choice:
            message = AIMessageChunk(content="", tool_call_chunks=[chunk_of_call(event.delta)])
    if (answer := answer_of(event)) is not None:
        reason = answer.choices[0].finish_reason if answer.choices else None
        message = AIMessageChunk(
            content="",
            additional_kwargs=_extra_kwargs(answer),
            usage_metadata=usage_of(answer.usage),
            response_metadata=metadata_of(answer, reason),
            chunk_position="last",
        )
    if message is None:
        return None
    metadata = message.response_metadata
    info = {"finish_reason": metadata["finish_reason"]} if metadata else None
    return ChatGenerationChunk(message=message, generation_info=info)


def result_of(answer: Answer) -> ChatResult:
    """Return the answer, or all answers if several were requested."""
    first = Choice(text=answer.text, tool_calls=answer.tool_calls, finish_reason=answer.finish_reason)
    generations = [_generation(answer, choice) for choice in answer.choices or (first,)]
    generations[0].message.additional_kwargs |= _extra_kwargs(answer)
    generations[0].message.usage_metadata = usage_of(answer.usage)  # type: ignore[attr-defined]  # of an AIMessage
    return ChatResult(generations=generations, llm_output={"model_name": answer.route.backend})


def _extra_kwargs(answer: Answer) -> dict[str, Any]:
    """Return what the model's server needs back with the tool results."""
    metadata: dict[str, Any] = {}
    if answer.thoughts and answer.tool_calls:
        metadata[THOUGHTS] = [dict(each) for each in answer.thoughts]
    if fields := {call.id: dict(call.extra) for call in answer.tool_calls if call.extra}:
        metadata[CALL_FIELDS] = fields
    return metadata


def _generation(answer: Answer, choice: Choice) -> ChatGeneration:
    valid, invalid = calls_of(choice.tool_calls)
    message = AIMessage(
        content=choice.text,
        tool_calls=valid,
        invalid_tool_calls=invalid,
        response_metadata=metadata_of(answer, choice.finish_reason),
    )
    return ChatGeneration(message=message, generation_info={"finish_reason": choice.finish_reason})
