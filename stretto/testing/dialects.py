"""The wire formats of OpenAI's Chat Completions and Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from stretto.testing.protocols import Turn
from stretto.values.tool_calls import ToolCall

_PIECE = 12  # characters of a tool call's arguments per event


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


class OpenAIDialect:
    """Chat Completions: role chunk, content chunks, finish chunk, usage chunk, ``[DONE]``."""

    _finish: ClassVar[Mapping[str, str]] = {"filtered": "content_filter", "length": "length"}

    def whole(self, turn: Turn) -> dict[str, Any]:
        return self._frame(turn, "chat.completion") | {
            "choices": [self._choice(each) for each in turn.all],
            "usage": self._usage(turn),
        }

    def opening(self, turn: Turn) -> bytes:
        """Return what precedes the first token."""
        begun = self._delta(turn, {"role": "assistant", "content": ""})
        thought = turn.reply.thought
        return begun + (self._delta(turn, {"reasoning_content": thought}) if thought else b"")

    def token(self, turn: Turn, text: str) -> bytes:
        return self._delta(turn, {self._field(turn): text}, logprobs=self._logprobs(turn, text))

    def calling(self, turn: Turn) -> bytes:
        events = b""
        for place, call in enumerate(turn.calls):
            whole = call.as_openai() | {"index": place}
            field = "input" if call.type == "custom" else "arguments"
            events += self._delta(turn, {"tool_calls": [whole | {call.type: whole[call.type] | {field: ""}}]})
            for at in range(0, len(call.arguments), _PIECE):
                piece = {"index": place, call.type: {field: call.arguments[at : at + _PIECE]}}
                events += self._delta(turn, {"tool_calls": [piece]})
        return events

    def closing(self, turn: Turn) -> bytes:
        """Return what follows the last token and the tool calls."""
        end = b"".join(self._delta(each, {}, self._reason(each)) for each in turn.all)
        if turn.usage_wanted:
            end += _event(self._frame(turn, "chat.completion.chunk") | {"choices": [], "usage": self._usage(turn)})
        return end + _event("[DONE]")

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, Any]:
        kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
            status, "invalid_request_error" if status < 500 else "server_error"
        )
        code = "unsupported_parameter" if parameter else None
        return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}

    def error_event(self, status: int, message: str) -> bytes:
        return _event(self.error(status, message))

    def rejection(self, parameter: str) -> str:
        """Return the real API's message that the model does not support a parameter."""
        return f"Unsupported parameter: '{parameter}' is not supported with this model."

    def _field(self, turn: Turn) -> str:
        return "refusal" if turn.finish == "refusal" else "content"

    def _reason(self, turn: Turn) -> str:
        if turn.calls and turn.finish == "stop":
            return "tool_calls"
        return self._finish.get(turn.finish, "stop")

    def _choice(self, turn: Turn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        if turn.reply.thought:
            message["reasoning_content"] = turn.reply.thought
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
        alternatives = [{"token": word, "logprob": value, "bytes": None} for word, value in top]
        content = [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": alternatives} for token in tokens]
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

    def whole(self, turn: Turn) -> dict[str, Any]:
        content = [self._thinking(turn)] if turn.reply.thought else []
        content += [{"type": "text", "text": turn.text}] if turn.text else []
        content += [self._use(call) | {"input": json.loads(call.arguments or "{}")} for call in turn.calls]
        return self._message(turn, content) | {
            "stop_reason": self._reason(turn),
            "stop_sequence": turn.stopped_by,
            "usage": self._usage(turn),
        }

    def opening(self, turn: Turn) -> bytes:
        start = self._message(turn, []) | {"usage": self._usage(turn) | {"output_tokens": 1}}
        first = self._first(turn)
        block = {"type": "content_block_start", "index": first, "content_block": {"type": "text", "text": ""}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        if turn.reply.thought:
            thought = self._thinking(turn)
            empty = dict.fromkeys(("thinking", "signature"), "")
            events.append({"type": "content_block_start", "index": 0, "content_block": thought | empty})
            for name in ("thinking", "signature"):
                delta = {"type": f"{name}_delta", name: thought[name]}
                events.append({"type": "content_block_delta", "index": 0, "delta": delta})
            events.append({"type": "content_block_stop", "index": 0})
        if turn.tokens or not turn.calls:
            events.append(block)
        events.append({"type": "ping"})
        return b"".join(self._named(event) for event in events)

    def token(self, turn: Turn, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return self._named({"type": "content_block_delta", "index": self._first(turn), "delta": delta})

    def calling(self, turn: Turn) -> bytes:
        events: list[dict[str, Any]] = []
        first = self._first(turn)
        if turn.calls and turn.tokens:
            events.append({"type": "content_block_stop", "index": first})
            first += 1
        for index, call in enumerate(turn.calls, start=first):
            events.append({"type": "content_block_start", "index": index, "content_block": self._use(call)})
            pieces = ["", *(call.arguments[at : at + _PIECE] for at in range(0, len(call.arguments), _PIECE))]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        return b"".join(self._named(event) for event in events)

    def closing(self, turn: Turn) -> bytes:
        delta = {"stop_reason": self._reason(turn), "stop_sequence": turn.stopped_by}
        usage = {
            "output_tokens": turn.completion_tokens,
            "output_tokens_details": {"thinking_tokens": turn.reply.reasoning_tokens},
        }
        end = b"" if turn.calls else self._named({"type": "content_block_stop", "index": self._first(turn)})
        end += self._named({"type": "message_delta", "delta": delta, "usage": usage})
        return end + self._named({"type": "message_stop"})

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, Any]:  # noqa: ARG002
        names = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        kind = names.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}

    def error_event(self, status: int, message: str) -> bytes:
        return self._named(self.error(status, message))

    def rejection(self, parameter: str) -> str:
        return f"`{parameter}` is not supported for this model."

    def _first(self, turn: Turn) -> int:
        """Return the index of the first block that is not a thought."""
        return 1 if turn.reply.thought else 0

    def _thinking(self, turn: Turn) -> dict[str, Any]:
        return {"type": "thinking", "thinking": turn.reply.thought, "signature": "signed"}

    def _reason(self, turn: Turn) -> str:
        if turn.calls and turn.finish == "stop":
            return "tool_use"
        return "stop_sequence" if turn.stopped_by else self._finish[turn.finish]

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


Dialect = OpenAIDialect | AnthropicDialect
