"""How a scripted reply looks on the wire: OpenAI's chat completions and Anthropic's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from stretto.tool_calls import ToolCall

Finish = Literal["stop", "length", "refusal", "filtered"]
_PIECE = 12  # characters of a tool call's arguments that come at once


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        kind: ``status`` answers with an HTTP error; ``reset`` tears the connection down; ``stall``
            goes silent until the client leaves; ``broken`` sends an event that is not JSON;
            ``error`` sends an error event; ``cut`` ends the stream without a finish reason.
        after: tokens sent before it happens; ``None``: before the response's headers (``status``,
            ``reset``, ``stall``) or after the last token (the others).
        status: HTTP status of ``status``; of ``error``, the status it stands for.
        headers: response headers of ``status``, for instance ``{"retry-after": "1"}``.
        message: what the error says; empty: a plain sentence.
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
    """What the model says. Token counts that are ``None`` are worked out from the texts.

    Attributes:
        finish: the reason the answer ends, sent the way each API sends it; ``filtered`` is a refusal
            by OpenAI's content filter instead of by the model.
        time_to_first_token_s: for this reply only; ``None``: the server's own.
        fault: what goes wrong while it is sent.
        tool_calls: calls that follow the text; the answer then ends by asking for their results.
        choices: the further answers, where a request asks for ``n``; the text again where there are too few.
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
    choices: Sequence[str | HttpReply] = ()


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are, for what no well-behaved server sends.

    Attributes:
        pieces: the body, sent piece by piece.
        then: what follows: the body ends, the connection is reset, or nothing until the client leaves.
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
    """A reply made ready for one request: its tokens and its numbers."""

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
        """What the answer is billed for, tool calls, reasoning and other choices included."""
        called = sum(len(call.arguments) // 4 + 1 for call in self.calls)
        others = sum(other.completion_tokens for other in self.others)
        return len(self.tokens) + called + others + self.reply.reasoning_tokens


class Dialect(Protocol):
    """One API's wire format. Every method returns the bytes of a body or of one event."""

    def whole(self, turn: Turn) -> dict[str, Any]:
        """Give the body of an answer that is not streamed."""
        ...

    def opening(self, turn: Turn) -> bytes:
        """Send what comes before the first token."""
        ...

    def token(self, turn: Turn, text: str) -> bytes:
        """Say one token."""
        ...

    def calling(self, turn: Turn) -> bytes:
        """Send the tool calls, in pieces."""
        ...

    def closing(self, turn: Turn) -> bytes:
        """Send what comes after the last token."""
        ...

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, Any]:
        """Give the body of an error."""
        ...

    def error_event(self, status: int, message: str) -> bytes:
        """Break off a stream with an error."""
        ...

    def rejection(self, parameter: str) -> str:
        """Say, in the words of the real API, that the model does not take a parameter."""
        ...


def turn_of(reply: HttpReply, body: Mapping[str, Any], number: int, choice: int = 0) -> Turn:
    """Cut a reply into tokens and bound it as the request asks (``max_tokens``, stop sequences, ``n``)."""
    text, finish = reply.text, reply.finish
    stops = body.get("stop") or body.get("stop_sequences") or ()
    for stop in (stops,) if isinstance(stops, str) else stops:
        text = text.split(stop, 1)[0]
    tokens: Sequence[str] = re.findall(r"\s*\S+|\s+$", text)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit and len(tokens) > limit:
        tokens, finish = tokens[:limit], "length"
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
        others=[turn_of((given[at - 1 :] or [reply])[0], body, number, at) for at in further],
    )


def prompt_of(body: Mapping[str, Any]) -> str:
    """All text of a request, system prompt first, one message per line."""
    parts = [_flat(body.get("system", ""))]
    parts += [_flat(message.get("content", "")) for message in body.get("messages", ())]
    return "\n".join(part for part in parts if part)


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or _flat(block.get("content") or "")) for block in content or ())


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


class OpenAIDialect:
    """Chat Completions: role chunk, content chunks, finish chunk, usage chunk, ``[DONE]``."""

    _finish: ClassVar[Mapping[str, str]] = {"filtered": "content_filter", "length": "length"}

    def whole(self, turn: Turn) -> dict[str, Any]:  # noqa: D102
        return self._frame(turn, "chat.completion") | {
            "choices": [self._choice(each) for each in turn.all],
            "usage": self._usage(turn),
        }

    def opening(self, turn: Turn) -> bytes:  # noqa: D102
        return self._delta(turn, {"role": "assistant", "content": ""})

    def token(self, turn: Turn, text: str) -> bytes:  # noqa: D102
        return self._delta(turn, {self._field(turn): text}, logprobs=self._logprobs(turn, text))

    def calling(self, turn: Turn) -> bytes:  # noqa: D102
        events = b""
        for place, call in enumerate(turn.calls):
            whole = call.as_openai() | {"index": place}
            field = "input" if call.type == "custom" else "arguments"
            events += self._delta(turn, {"tool_calls": [whole | {call.type: whole[call.type] | {field: ""}}]})
            for at in range(0, len(call.arguments), _PIECE):
                piece = {"index": place, call.type: {field: call.arguments[at : at + _PIECE]}}
                events += self._delta(turn, {"tool_calls": [piece]})
        return events

    def closing(self, turn: Turn) -> bytes:  # noqa: D102
        end = b"".join(self._delta(each, {}, self._reason(each)) for each in turn.all)
        if turn.usage_wanted:
            end += _event(self._frame(turn, "chat.completion.chunk") | {"choices": [], "usage": self._usage(turn)})
        return end + _event("[DONE]")

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, Any]:  # noqa: D102
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
            status, "invalid_request_error" if status < 500 else "server_error"
        )
        code = "unsupported_parameter" if parameter else None
        return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}

    def error_event(self, status: int, message: str) -> bytes:  # noqa: D102
        return _event(self.error(status, message))

    def rejection(self, parameter: str) -> str:  # noqa: D102
        return f"Unsupported parameter: '{parameter}' is not supported with this model."

    def _field(self, turn: Turn) -> str:
        return "refusal" if turn.finish == "refusal" else "content"

    def _reason(self, turn: Turn) -> str:
        if turn.calls and turn.finish == "stop":
            return "tool_calls"
        return self._finish.get(turn.finish, "stop")

    def _choice(self, turn: Turn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        message[self._field(turn)] = turn.text if turn.text or not turn.calls else None
        if turn.calls:
            message["tool_calls"] = [call.as_openai() for call in turn.calls]
        logprobs = self._logprobs(turn, *turn.tokens)
        return {"index": turn.choice, "message": message, "finish_reason": self._reason(turn), "logprobs": logprobs}

    def _frame(self, turn: Turn, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{turn.number}", "object": kind, "created": 0, "model": turn.model}

    def _logprobs(self, turn: Turn, *tokens: str) -> dict[str, Any] | None:
        if turn.top_logprobs is None:
            return None
        top = [(f"word{place}", -1.0 - place) for place in range(turn.top_logprobs)]
        beside = [{"token": word, "logprob": value, "bytes": None} for word, value in top]
        content = [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": beside} for token in tokens]
        return {"content": content, "refusal": None}

    def _delta(
        self, turn: Turn, delta: dict[str, Any], finish: str | None = None, logprobs: dict[str, Any] | None = None
    ) -> bytes:
        choice = {"index": turn.choice, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
        return _event(self._frame(turn, "chat.completion.chunk") | {"choices": [choice]})

    def _usage(self, turn: Turn) -> dict[str, Any]:
        return {
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": turn.completion_tokens,
            "total_tokens": turn.prompt_tokens + turn.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": turn.reply.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": turn.reply.reasoning_tokens},
        }


class AnthropicDialect:
    """Messages: message start, a text block, tool calls, message delta with the stop reason, message stop."""

    _finish: ClassVar[Mapping[str, str]] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "refusal": "refusal",
        "filtered": "refusal",
    }

    def whole(self, turn: Turn) -> dict[str, Any]:  # noqa: D102
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
        content += [self._use(call) | {"input": json.loads(call.arguments or "{}")} for call in turn.calls]
        return self._message(turn, content) | {"stop_reason": self._reason(turn), "usage": self._usage(turn)}

    def opening(self, turn: Turn) -> bytes:  # noqa: D102
        start = self._message(turn, []) | {"usage": self._usage(turn) | {"output_tokens": 1}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        if turn.tokens or not turn.calls:
            events.append(block)
        events.append({"type": "ping"})
        return b"".join(self._named(event) for event in events)

    def token(self, turn: Turn, text: str) -> bytes:  # noqa: D102, ARG002
        delta = {"type": "text_delta", "text": text}
        return self._named({"type": "content_block_delta", "index": 0, "delta": delta})

    def calling(self, turn: Turn) -> bytes:  # noqa: D102
        events: list[dict[str, Any]] = []
        first = 1 if turn.tokens else 0
        if turn.calls and first:
            events.append({"type": "content_block_stop", "index": 0})
        for index, call in enumerate(turn.calls, start=first):
            events.append({"type": "content_block_start", "index": index, "content_block": self._use(call)})
            pieces = ["", *(call.arguments[at : at + _PIECE] for at in range(0, len(call.arguments), _PIECE))]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        return b"".join(self._named(event) for event in events)

    def closing(self, turn: Turn) -> bytes:  # noqa: D102
        delta = {"stop_reason": self._reason(turn), "stop_sequence": None}
        usage = {
            "output_tokens": turn.completion_tokens,
            "output_tokens_details": {"thinking_tokens": turn.reply.reasoning_tokens},
        }
        end = b"" if turn.calls else self._named({"type": "content_block_stop", "index": 0})
        end += self._named({"type": "message_delta", "delta": delta, "usage": usage})
        return end + self._named({"type": "message_stop"})

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, Any]:  # noqa: D102, ARG002
        names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = names.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}

    def error_event(self, status: int, message: str) -> bytes:  # noqa: D102
        return self._named(self.error(status, message))

    def rejection(self, parameter: str) -> str:  # noqa: D102
        return f"`{parameter}` is not supported for this model."

    def _reason(self, turn: Turn) -> str:
        return "tool_use" if turn.calls and turn.finish == "stop" else self._finish[turn.finish]

    def _use(self, call: ToolCall) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}

    def _message(self, turn: Turn, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"msg_{turn.number}",
            "type": "message",
            "role": "assistant",
            "model": turn.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _usage(self, turn: Turn) -> dict[str, Any]:
        return {
            "input_tokens": turn.prompt_tokens - turn.reply.cached_tokens - turn.reply.cache_write_tokens,
            "cache_read_input_tokens": turn.reply.cached_tokens,
            "cache_creation_input_tokens": turn.reply.cache_write_tokens,
            "output_tokens": turn.completion_tokens,
        }

    def _named(self, data: dict[str, Any]) -> bytes:
        return _event(data, data["type"])
