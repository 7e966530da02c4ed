"""Answers in the format of OpenAI's older APIs: messages, tool call deltas, reasons, usage, log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stretto.values.answer import Answer, Choice, FinishReason, Usage
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import ToolCallFragment

# Any incomplete answer says "length", the only value for it that all clients know.
FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "nothing_found": "stop",  # the answer is complete: it says that the documents do not contain it
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
CUT = "length"


def message_of(choice: Choice) -> dict[str, Any]:
    """Return a choice's message in OpenAI's format."""
    content, refusal = (None, choice.text) if choice.refused else (choice.text, None)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal}
    if choice.tool_calls:
        message["content"] = content or None
        message["tool_calls"] = [call.as_openai() for call in choice.tool_calls]
    return message


def call_piece_of(delta: ToolCallFragment) -> dict[str, Any]:
    """Return a tool call delta in OpenAI's format."""
    piece: dict[str, Any] = {**delta.extra, "index": delta.index}
    if delta.id is not None:
        piece["id"] = delta.id
    if delta.name is not None:
        piece["type"] = delta.type
    named = {} if delta.name is None else {"name": delta.name}
    piece[delta.type] = named | {"input" if delta.type == "custom" else "arguments": delta.arguments}
    return piece


def refused(answer: Answer) -> bool:
    """Return whether the answer's text is a refusal, which OpenAI's APIs report separately from text."""
    return any(branch.refused and branch.kind == "direct" for branch in answer.branches)


def choices_of(answer: Answer) -> Sequence[Choice]:
    """Return the choices of an answer; one unless several were requested."""
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
    """Return OpenAI's finish reason for a choice."""
    # To OpenAI, a refusal is a normal ending, and its SDK raises an error for any other reason.
    return "stop" if choice.refused and choice.finish_reason == "refusal" else finish_of(choice.finish_reason)


def finish_of(reason: FinishReason) -> str:
    """Return OpenAI's finish reason for an answer."""
    return FINISH.get(reason, CUT)


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return a usage in OpenAI's format."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def logprobs_of(logprobs: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    """Return log-probabilities in OpenAI's format."""
    if not logprobs:
        return None

    def one(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    content = [one(each.token, each.logprob) | {"top_logprobs": [one(*pair) for pair in each.top]} for each in logprobs]
    return {"content": content, "refusal": None}
