"""What a scripted server replies, and how one request gets it; `stretto.testing.dialects` puts it on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.values.tool_calls import ToolCall

Finish = Literal["stop", "length", "refusal", "filtered"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure.

    Attributes:
        kind: ``status`` answers with an HTTP error; ``reset`` tears the connection down; ``stall``
            goes silent until the client leaves; ``broken`` sends an event that is not JSON;
            ``error`` sends an error event; ``cut`` ends the stream without a finish reason.
        after: tokens sent before it happens; ``None``: before the response's headers (``status``,
            ``reset``, ``stall``) or after the last token (the others).
        status: HTTP status of ``status``; for ``error``, the equivalent status.
        headers: response headers of ``status``, for instance ``{"retry-after": "1"}``.
        message: the error message; empty: a default sentence.
    """

    kind: Literal["status", "reset", "stall", "broken", "error", "cut"]
    after: int | None = None
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""

    @property
    def early(self) -> bool:
        """Whether it happens before the response's headers."""
        return self.kind == "status" or (self.after is None and self.kind in {"reset", "stall"})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The model's reply.

    Attributes:
        text: the answer.
        finish: the reason the answer ends, sent the way each API sends it; ``filtered`` is a refusal
            by OpenAI's content filter instead of by the model.
        prompt_tokens: tokens of the prompt in the usage; ``None``: computed from its text.
        cached_tokens: of these, the tokens reported as read from a cache.
        cache_write_tokens: of these, the tokens reported as written to a cache.
        reasoning_tokens: tokens of thinking in the usage.
        time_to_first_token_s: for this reply only; ``None``: the server's default.
        fault: the failure while it is sent.
        tool_calls: calls that follow the text; the answer then ends by asking for their results.
        thought: what the model thinks before its answer, sent the way each API sends it.
        choices: the further answers if a request asks for ``n``; the text is repeated if there are too few.
    """

    text: str = ""
    finish: Finish = "stop"
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    time_to_first_token_s: float | None = None
    fault: Fault | None = None
    tool_calls: Sequence[ToolCall] = ()
    thought: str = ""
    choices: Sequence[str | HttpReply] = ()


@dataclass(frozen=True, slots=True)
class RawResponse:
    """Bytes sent unchanged, for responses that no well-behaved server sends.

    Attributes:
        pieces: the body, sent piece by piece.
        then: what follows: the body ends, the connection is reset, or silence until the client leaves.
        endless: the last piece is sent again and again until the client leaves.
        status: HTTP status.
        headers: response headers, the content type among them.
    """

    pieces: Sequence[bytes]
    then: Literal["end", "reset", "stall"] = "end"
    endless: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply prepared for one request: its tokens and its counts."""

    reply: HttpReply
    tokens: Sequence[str]
    finish: Finish
    prompt_tokens: int
    model: str
    number: int
    usage_wanted: bool
    top_logprobs: int | None = None
    choice: int = 0
    others: Sequence[Turn] = ()
    stopped_by: str | None = None

    @property
    def all(self) -> Sequence[Turn]:
        """All choices."""
        return (self, *self.others)

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The tool calls, each with an id."""
        return [
            call if call.id else call.model_copy(update={"id": f"call_{self.number}_{self.choice}_{place}"})
            for place, call in enumerate(self.reply.tool_calls)
        ]

    @property
    def text(self) -> str:
        """All tokens, joined."""
        return "".join(self.tokens)

    @property
    def completion_tokens(self) -> int:
        """The billed tokens of the answer, including tool calls, reasoning and other choices."""
        called = sum(len(call.arguments) // 4 + 1 for call in self.calls)
        others = sum(other.completion_tokens for other in self.others)
        return len(self.tokens) + called + others + self.reply.reasoning_tokens


def turn_of(
    reply: HttpReply, body: Mapping[str, Any], number: int, choice: int = 0, *, characters: int | None = None
) -> Turn:
    """Split a reply into tokens and limit it as the request asks (``max_tokens``, stop sequences, ``n``).

    ``characters``: the length of a token; without it, tokens are words.
    """
    text, finish = reply.text, reply.finish
    stops = body.get("stop") or body.get("stop_sequences") or ()
    stopped_by = None
    for stop in (stops,) if isinstance(stops, str) else stops:
        if stop in text:
            text, stopped_by = text.split(stop, 1)[0], stop
    token = r"\s*+\S++|\s++$" if characters is None else f"(?s:.{{1,{characters}}})"
    tokens: Sequence[str] = re.findall(token, text)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit and len(tokens) > limit:
        tokens, finish, stopped_by = tokens[:limit], "length", None
    counted = max(1, len(prompt_of(body)) // 4)
    further = range(1, int(body.get("n") or 1)) if not choice else ()
    given = [each if isinstance(each, HttpReply) else HttpReply(each) for each in reply.choices]
    return Turn(
        reply=reply,
        tokens=tokens,
        finish=finish,
        prompt_tokens=counted if reply.prompt_tokens is None else reply.prompt_tokens,
        model=str(body.get("model", "")),
        number=number,
        usage_wanted=bool((body.get("stream_options") or {}).get("include_usage")),
        top_logprobs=int(body.get("top_logprobs") or 0) if body.get("logprobs") else None,
        choice=choice,
        stopped_by=stopped_by,
        others=[turn_of((given[at - 1 :] or [reply])[0], body, number, at, characters=characters) for at in further],
    )


def prompt_of(body: Mapping[str, Any]) -> str:
    """Return all text of a request, system prompt first, one message per line."""
    parts = [_flat(body.get("system", ""))]
    parts += [_flat(message.get("content", "")) for message in body.get("messages", ())]
    return "\n".join(part for part in parts if part)


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or _flat(block.get("content") or "")) for block in content or ())
