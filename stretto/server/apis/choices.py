"""Answers in the form of OpenAI's older APIs: messages, pieces of tool calls, reasons, usage, log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stretto.values.answer import Answer, Choice, FinishReason, Usage
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import ToolCallFragment

# An answer that is not whole for whatever reason says "length", the one word for it that all clients know.
FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "nothing_found": "stop",  # the answer is whole: it says that the documents do not tell it
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
CUT = "length"


def message_of(choice: Choice) -> dict[str, Any]:
    """OpenAI's form of a choice's message."""
    said, refusal = (None, choice.text) if choice.refused else (choice.text, None)
    message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": refusal}
    if choice.tool_calls:
        message["content"] = said or None
        message["tool_calls"] = [call.as_openai() for call in choice.tool_calls]
    return message


def call_piece_of(delta: ToolCallFragment) -> dict[str, Any]:
    """OpenAI's form of a piece of a tool call."""
    piece: dict[str, Any] = {**delta.extra, "index": delta.index}
    if delta.id is not None:
        piece["id"] = delta.id
    if delta.name is not None:
        piece["type"] = delta.type
    said = {} if delta.name is None else {"name": delta.name}
    piece[delta.type] = said | {"input" if delta.type == "custom" else "arguments": delta.arguments}
    return piece


def refused(answer: Answer) -> bool:
    """Whether its text is a refusal, which OpenAI's APIs tell apart from text."""
    return any(branch.refused and branch.kind == "direct" for branch in answer.branches)


def choices_of(answer: Answer) -> Sequence[Choice]:
    """The choices of an answer; one, where several were not asked for."""
    if answer.choices:
        return answer.choices
    return [
        Choice(
            text=answer.text,
            tool_calls=answer.tool_calls,
            finish_reason=answer.finish_reason,
            logprobs=answer.logprobs,
            refused=refused(answer),
        )
    ]


def finish_of_choice(choice: Choice) -> str:
    """OpenAI's word for how a choice ended."""
    # What a model refuses has ended well for OpenAI, and its SDK raises an error at any other reason.
    return "stop" if choice.refused and choice.finish_reason == "refusal" else finish_of(choice.finish_reason)


def finish_of(reason: FinishReason) -> str:
    """OpenAI's word for how an answer ended."""
    return FINISH.get(reason, CUT)


def usage_of(usage: Usage) -> dict[str, Any]:
    """OpenAI's form of a usage."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def logprobs_of(logprobs: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    """OpenAI's form of log-probabilities."""
    if not logprobs:
        return None

    def one(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    content = [one(each.token, each.logprob) | {"top_logprobs": [one(*pair) for pair in each.top]} for each in logprobs]
    return {"content": content, "refusal": None}
