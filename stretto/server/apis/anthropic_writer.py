"""Writes answers as Anthropic's Messages do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from stretto.server.apis.api_answer import Outgoing, sse
from stretto.server.apis.extension import extension_of
from stretto.server.problems import Problem
from stretto.values.answer import Answer, FinishReason, Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.events import AnswerFinished, Event, RouteChosen, TextDelta, ThoughtFinished, ToolCallDelta
from stretto.values.tool_calls import ANTHROPIC_THOUGHTS, ToolCall, is_listed, reasoning_of

_STOP: dict[FinishReason, str] = {
    "stop": "end_turn",
    "nothing_found": "end_turn",
    "tool_calls": "tool_use",
    "refusal": "refusal",
    "content_filter": "refusal",
}
_CUT = "max_tokens"  # the one word for an answer that is not whole


class MessagesWriter:
    """Writes one answer as Messages do.

    A stream is: ``message_start``; for each block of content its start, deltas and stop; ``message_delta`` with the
    stop reason and the usage; ``message_stop``. Blocks follow each other: what another tool call says while one is
    open is kept until the end, and so are thoughts and text.

    Attributes:
        untold: a warning for an answer of which nobody knows whether a stop sequence ended it.
    """

    def __init__(
        self, model: str, request_id: str, *, events: bool, thinks: bool, warnings: Sequence[AnswerWarning] = ()
    ) -> None:
        self._frame = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        self._request_id = request_id
        self._thinks = thinks
        self._warnings = warnings
        self.untold: AnswerWarning | None = None
        self._outgoing = Outgoing(events=events)
        self._blocks = 0  # that have been started
        self._open: str | int | None = None  # "text", "thought", or the index of the tool call that is being streamed
        self._streamed: set[int] = set()  # tool calls that were, or are
        self._later = ""  # text that came while a tool call was open
        self._thoughts: list[dict[str, Any]] = []  # that came then

    def whole(self, answers: Sequence[Answer]) -> Any:
        """The response as JSON."""
        answer = answers[0]
        content = [block for thought in answer.thoughts if (block := self._block(thought))]
        content += [{"type": "text", "text": answer.text}] if answer.text else []
        content += [_tool_use(call, _arguments(call)) for call in answer.tool_calls]
        return self._frame | {
            "content": content,
            **_end(answer),
            "usage": _usage(answer.usage),
            "stretto": self._extension(answer),
        }

    def _extension(self, answer: Answer) -> dict[str, Any]:
        warnings = list(self._warnings)
        if self.untold is not None and _end(answer)["stop_reason"] == "end_turn":
            warnings.append(self.untold)
        return extension_of(answer, warnings=warnings)

    def frames(self, index: int, event: Event) -> bytes:  # noqa: ARG002 - there is one answer
        """What an event adds to the stream."""
        return self._outgoing.due(event, self._written(event))

    def closing(self) -> bytes:
        """What ends the stream."""
        return _event("message_stop")

    def broken(self, problem: Problem) -> bytes:
        """What ends a stream that cannot go on."""
        return sse(problem.as_anthropic(self._request_id), "error")

    def _written(self, event: Event) -> bytes:
        match event:
            case RouteChosen():
                usage = {"input_tokens": 0, "output_tokens": 0}  # not known yet; the last event tells
                message: dict[str, Any] = self._frame | {
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": usage,
                }
                return _event("message_start", message=message)
            case TextDelta():
                return self._text(event.text)
            case ToolCallDelta() if event.choice == 0:
                return self._call_piece(event)
            case ThoughtFinished():
                return self._thought(self._block(event.thought))
            case AnswerFinished():
                return self._end(event.answer)
        return b""

    def _text(self, text: str) -> bytes:
        if isinstance(self._open, int):
            self._later += text
            return b""
        begin = b"" if self._open == "text" else self._start("text", {"type": "text", "text": ""})
        return begin + self._delta({"type": "text_delta", "text": text})

    def _block(self, thought: Mapping[str, Any]) -> dict[str, Any] | None:
        """A thought as a block; one of another API's is not signed, and shown where thoughts were asked for."""
        if thought.get("type") in ANTHROPIC_THOUGHTS and not is_listed(thought):
            return dict(thought)
        _, said = reasoning_of(thought)
        return {"type": "thinking", "thinking": said, "signature": ""} if said and self._thinks else None

    def _thought(self, block: dict[str, Any] | None) -> bytes:
        if block is None:
            return b""
        if isinstance(self._open, int):
            self._thoughts.append(block)
            return b""
        pieces = [name for name in ("thinking", "signature") if name in block]
        frames = self._start("thought", block | dict.fromkeys(pieces, ""))
        for name in pieces:
            frames += self._delta({"type": f"{name}_delta", name: block[name]}) if block[name] else b""
        return frames + self._close()

    def _call_piece(self, piece: ToolCallDelta) -> bytes:
        delta, begin = piece.delta, b""
        if self._open != delta.index:
            if isinstance(self._open, int) or delta.index in self._streamed:
                return b""  # the whole of it comes at the end
            self._streamed.add(delta.index)
            call = ToolCall(id=delta.id or "", name=delta.name or "")
            begin = self._close() + self._start(delta.index, _tool_use(call, {}))
        return begin + (
            self._delta({"type": "input_json_delta", "partial_json": delta.arguments}) if delta.arguments else b""
        )

    def _end(self, answer: Answer) -> bytes:
        frames = self._close() + b"".join(map(self._thought, self._thoughts))
        for index, call in enumerate(answer.tool_calls):
            if index not in self._streamed:
                frames += self._start(index, _tool_use(call, {}))
                frames += self._delta({"type": "input_json_delta", "partial_json": call.arguments}) + self._close()
        if self._later:
            frames += self._text(self._later) + self._close()
        extension = self._extension(answer)
        return frames + _event("message_delta", delta=_end(answer), usage=_usage(answer.usage), stretto=extension)

    def _start(self, what: str | int, block: dict[str, Any]) -> bytes:
        closed = self._close()
        self._open = what
        self._blocks += 1
        return closed + _event("content_block_start", index=self._blocks - 1, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event("content_block_stop", index=self._blocks - 1)


def _end(answer: Answer) -> dict[str, Any]:
    """Why an answer has ended, and at which of the stop sequences."""
    stops = [branch.stop_text for branch in answer.branches if branch.kind == "direct" and branch.stop_text]
    if stops and answer.finish_reason == "stop":
        return {"stop_reason": "stop_sequence", "stop_sequence": stops[-1]}
    return {"stop_reason": _STOP.get(answer.finish_reason, _CUT), "stop_sequence": None}


def _event(kind: str, **data: Any) -> bytes:
    return sse({"type": kind} | data, kind)


def _tool_use(call: ToolCall, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _arguments(call: ToolCall) -> Any:
    try:
        found = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": call.arguments}  # a model wrote this


def _usage(usage: Usage) -> dict[str, Any]:
    fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    return {
        "input_tokens": max(0, fresh),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
