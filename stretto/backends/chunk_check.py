"""Checks that the fields of a chunk have their types: a backend of the caller may yield anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from stretto.answer import FinishReason, Usage
from stretto.backends.base import Chunk, Stages
from stretto.token_records import DecodingStats, TokenLogprob
from stretto.tool_calls import ToolCallFragment

_REASONS = (None, *get_args(FinishReason))


def what_is_wrong(chunk: Chunk) -> str | None:
    """Name the first field that cannot be used, with its value's type; ``None``: all can."""
    given: Mapping[str, tuple[Any, type | tuple[type, ...]]] = {
        "text": (chunk.text, str),
        "usage": (chunk.usage, (Usage, type(None))),
        "decoding": (chunk.decoding, (DecodingStats, type(None))),
        "logprobs": (chunk.logprobs, tuple),
        "warnings": (chunk.warnings, tuple),
        "stages": (chunk.stages, (Stages, type(None))),
        "tool_calls": (chunk.tool_calls, tuple),
        "thoughts": (chunk.thoughts, tuple),
        "refused": (chunk.refused, bool),
        "stop_text": (chunk.stop_text, (str, type(None))),
        "unheld": (chunk.unheld, tuple),
        "choice": (chunk.choice, int),
        "extra": (chunk.extra, Mapping),
    }
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            return f"{name} is a {type(value).__name__}"
    if not all(isinstance(each, TokenLogprob) for each in chunk.logprobs):
        return "logprobs are no TokenLogprob"
    for name, texts in (("warnings", chunk.warnings), ("unheld", chunk.unheld)):
        if not all(isinstance(each, str) for each in texts):
            return f"{name} are no strings"
    if not all(isinstance(each, ToolCallFragment) for each in chunk.tool_calls):
        return "tool_calls are no ToolCallFragment"
    if chunk.finish_reason not in _REASONS:
        return f"finish_reason is {chunk.finish_reason!r}"
    return None
