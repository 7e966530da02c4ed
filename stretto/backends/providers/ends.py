"""The finish reasons of servers, and what each of them means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Finish = Literal["stop", "length", "tool_calls", "refusal", "content_filter"]
End = Finish | Literal["paused", "failed", "unknown"]
"""``paused``: the server wants to be asked to continue; ``failed``: the answer so far is not complete."""

_WORDS: Mapping[End, str] = {
    "stop": "stop end_turn stop_sequence eos eos_token complete completed normal finish_reason_stop",
    "length": "length max_tokens max_output_tokens max_completion_tokens max_length model_length token_limit "
    "token_limit_reached model_context_window_exceeded context_length_exceeded "
    "context_window_exceeded error_limit time_limit timelimit repetition repeat incomplete",
    "tool_calls": "tool_calls tool_call tool_use function_call function_calls",
    "refusal": "refusal",
    "content_filter": "content_filter content_filtered content_policy content_policy_violation safety recitation "
    "guardrail_intervened guardrails blocklist prohibited_content spii language image_safety image_recitation "
    "image_prohibited_content sensitive error_toxic model_armor moderation blocked",
    "failed": "error abort aborted cancel canceled cancelled user_cancel failed failure timeout network_error "
    "server_error internal_error internal_server_error model_error engine_error overloaded "
    "insufficient_system_resource malformed_function_call malformed_model_output malformed_tool_use "
    "malformed_response unexpected_tool_call too_many_tool_calls missing_thought_signature",
    "paused": "pause_turn",
}
_GOES_ON = frozenset(["null", "none", "undefined", "unspecified", "in_progress", "not_finished"])
_ENDS: Mapping[str, End] = {word: end for end, words in _WORDS.items() for word in words.split()}


def end_of(word: str) -> End:
    """Return the meaning of a server's finish reason. Gemini's OpenAI API adds its own word after a colon."""
    first, _, more = word.partition(":")
    found = (_ENDS.get(_plain(each)) for each in (word, first, more))
    return next(filter(None, found), "unknown")


def _plain(word: str) -> str:
    """Return the word in the form of the table, without an enumeration's name before it."""
    plain = word.strip().lower().rpartition(".")[2].removeprefix("finish_reason_")
    return plain.replace("-", "_").replace(" ", "_")


def word_of_end(value: Any) -> str | None:
    """Return the word of a finish reason, which some servers send as an object; ``None`` if there is none.

    Some servers send a placeholder in each event before the last.
    """
    if isinstance(value, Mapping):
        value = value.get("type")
    return value if isinstance(value, str) and value and _plain(value) not in _GOES_ON else None
