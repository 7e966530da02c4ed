"""Writes answers as OpenAI's Responses do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stretto.server.apis.api_answer import Outgoing, sse
from stretto.server.apis.choices import logprobs_of, refused
from stretto.server.apis.extension import extension_of
from stretto.server.problems import Problem
from stretto.values.answer import Answer, Usage
from stretto.values.events import (
    AnswerFinished,
    BranchDelta,
    Event,
    RefusalStarted,
    RouteChosen,
    TextDelta,
    ToolCallDelta,
)
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import ToolCall

if TYPE_CHECKING:
    from stretto.server.apis.responses import ResponsesBody

_INCOMPLETE = {"refusal": "content_filter", "content_filter": "content_filter"}  # anything else: max_output_tokens
_WHOLE = ("stop", "nothing_found", "tool_calls")


class ResponsesWriter:
    """Writes one answer as Responses do: items of output, each with its own begin, deltas and end."""

    def __init__(self, model: str, asked: ResponsesBody, *, events: bool) -> None:
        given = asked.model_extra or {}
        self._response: dict[str, Any] = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "completed_at": None,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "max_tool_calls": None,
            "metadata": given.get("metadata") or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
            "presence_penalty": _number(given.get("presence_penalty")),
            "frequency_penalty": _number(given.get("frequency_penalty")),
            "prompt_cache_key": given.get("prompt_cache_key"),
            "previous_response_id": None,
            "reasoning": {"effort": (asked.reasoning or {}).get("effort"), "summary": None},
            "safety_identifier": given.get("safety_identifier"),
            "service_tier": "default",
            "store": False,
            "temperature": 1.0 if asked.temperature is None else asked.temperature,
            "text": {"format": (asked.text and asked.text.format) or {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": [_tool_shown(tool) for tool in asked.tools or ()],
            "top_logprobs": asked.top_logprobs or 0,
            "top_p": 1.0 if asked.top_p is None else asked.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": given.get("user"),
        }
        self._message_id = f"msg_{uuid.uuid4().hex}"
        self._outgoing = Outgoing(events=events)
        self._number = 0
        self._text: list[str] | None = None  # pieces of the message, once it has begun
        self._refused = False
        self._is_direct = False
        self._logprobs: tuple[TokenLogprob, ...] = ()  # of text that is not sent yet
        self._calls: dict[int, dict[str, Any]] = {}  # by index: the item as it began, with its place
        self._places = self._place = 0

    def whole(self, answers: Sequence[Answer]) -> Any:
        """The response as JSON."""
        answer = answers[0]
        output = [self._message(answer)] if answer.text or not answer.tool_calls else []
        output += [_call_item(call) for call in answer.tool_calls]
        return self._ended(answer, output)

    def frames(self, index: int, event: Event) -> bytes:  # noqa: ARG002 - there is one answer
        """What an event adds to the stream."""
        return self._outgoing.due(event, self._written(event))

    def closing(self) -> bytes:
        """What ends the stream: nothing beside the last event."""
        return b""

    def broken(self, problem: Problem) -> bytes:
        """What ends a stream that cannot go on."""
        error = {"code": "server_error", "message": problem.message}
        return self._event("response.failed", response=self._response | {"status": "failed", "error": error})

    def _written(self, event: Event) -> bytes:
        match event:
            case RouteChosen():
                self._is_direct = event.route.strategy == "direct"
                response = self._response | {"stretto": {"route": event.route.model_dump(mode="json")}}
                return self._event("response.created", response=response) + self._event(
                    "response.in_progress", response=self._response
                )
            case TextDelta():
                begin = self._begin_message() if self._text is None else b""
                assert self._text is not None  # noqa: S101 - begun above
                self._text.append(event.text)
                new, self._logprobs = logprobs_of(self._logprobs), ()
                logprobs = new["content"] if new else []
                kind, beside = ("refusal", {}) if self._refused else ("output_text", {"logprobs": logprobs})
                return begin + self._event(
                    f"response.{kind}.delta", **self._where, delta=event.text, content_index=0, **beside
                )
            case BranchDelta() if self._is_direct and event.branch_id == "direct":
                self._logprobs += event.logprobs
            case RefusalStarted() if event.choice == 0:
                self._refused = True
            case ToolCallDelta() if event.choice == 0:
                return self._call_piece(event)
            case AnswerFinished():
                return self._end(event.answer)
        return b""

    @property
    def _where(self) -> dict[str, Any]:
        return {"item_id": self._message_id, "output_index": self._place}

    def _begin_message(self) -> bytes:
        self._text, self._place = [], self._next_place()
        item = {"id": self._message_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        added = self._event("response.output_item.added", output_index=self._place, item=item)
        return added + self._event(
            "response.content_part.added", **self._where, content_index=0, part=_part("", (), self._refused)
        )

    def _call_piece(self, piece: ToolCallDelta) -> bytes:
        delta, begin = piece.delta, b""
        if delta.index not in self._calls:
            item = _call_item(ToolCall(id=delta.id or "", name=delta.name or "", type=delta.type))
            self._calls[delta.index] = item | {"place": self._next_place()}
            begin = self._event(
                "response.output_item.added",
                output_index=self._calls[delta.index]["place"],
                item=item | {"status": "in_progress"},
            )
        if not delta.arguments:
            return begin
        item = self._calls[delta.index]
        kind = "function_call_arguments" if item["type"] == "function_call" else "custom_tool_call_input"
        return begin + self._event(
            f"response.{kind}.delta", item_id=item["id"], output_index=item["place"], delta=delta.arguments
        )

    def _end(self, answer: Answer) -> bytes:
        frames = b""
        output: dict[int, dict[str, Any]] = {}
        if self._text is None and not answer.tool_calls:
            frames += self._begin_message()
        if self._text is not None:
            item = self._message(answer)
            output[self._place] = item
            part = item["content"][0]
            said = {name: value for name, value in part.items() if name not in ("type", "annotations")}
            frames += self._event(f"response.{part['type']}.done", **self._where, content_index=0, **said)
            frames += self._event("response.content_part.done", **self._where, content_index=0, part=part)
            frames += self._event("response.output_item.done", output_index=self._place, item=item)
        for index, call in enumerate(answer.tool_calls):
            begun = self._calls.get(index)
            if begun is None:  # one that came in no pieces
                begun = self._calls[index] = _call_item(call) | {"place": self._next_place()}
                added = begun | {"status": "in_progress"}
                frames += self._event("response.output_item.added", output_index=begun["place"], item=added)
            item = _call_item(call) | {"id": begun["id"]}
            output[begun["place"]] = item
            frames += self._call_done(item, begun["place"])
        ended = self._ended(answer, [output[place] for place in sorted(output)])
        kind = "response.completed" if ended["status"] == "completed" else "response.incomplete"
        return frames + self._event(kind, response=ended)

    def _call_done(self, item: dict[str, Any], place: int) -> bytes:
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "function_call":
            done = self._event(
                "response.function_call_arguments.done", **where, name=item["name"], arguments=item["arguments"]
            )
        else:
            done = self._event("response.custom_tool_call_input.done", **where, input=item["input"])
        return done + self._event("response.output_item.done", output_index=place, item=item)

    def _message(self, answer: Answer) -> dict[str, Any]:
        logprobs = logprobs_of(answer.logprobs)
        return {
            "id": self._message_id,
            "type": "message",
            "status": "completed" if _whole(answer) else "incomplete",
            "role": "assistant",
            "content": [_part(answer.text, logprobs["content"] if logprobs else (), refused(answer))],
        }

    def _ended(self, answer: Answer, output: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        whole = _whole(answer)
        reason = _INCOMPLETE.get(answer.finish_reason, "max_output_tokens")
        return self._response | {
            "status": "completed" if whole else "incomplete",
            "incomplete_details": None if whole else {"reason": reason},
            "completed_at": int(time.time()),
            "output": list(output),
            "usage": _usage(answer.usage),
            "stretto": extension_of(answer),
        }

    def _next_place(self) -> int:
        self._places += 1
        return self._places - 1

    def _event(self, kind: str, **data: Any) -> bytes:
        self._number += 1
        return sse({"type": kind, "sequence_number": self._number - 1} | data, kind)


def _number(given: Any) -> float:
    return given if isinstance(given, int | float) and not isinstance(given, bool) else 0.0


def _tool_shown(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool with the fields that a response holds, also where the request left them out."""
    if tool.get("type") != "function":
        return dict(tool)
    return {"description": None, "parameters": None, "strict": None, **tool}


def _whole(answer: Answer) -> bool:
    return answer.finish_reason in _WHOLE or (answer.finish_reason == "refusal" and refused(answer))


def _part(text: str, logprobs: Sequence[Any], refusal: bool) -> dict[str, Any]:
    if refusal:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}


def _call_item(call: ToolCall) -> dict[str, Any]:
    if call.type == "custom":
        item = {"id": f"ctc_{uuid.uuid4().hex}", "type": "custom_tool_call", "input": call.arguments}
    else:
        item = {"id": f"fc_{uuid.uuid4().hex}", "type": "function_call", "arguments": call.arguments}
    return item | {"status": "completed", "call_id": call.id, "name": call.name}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
