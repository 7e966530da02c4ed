"""``/v1/responses``: OpenAI's newer API. What needs state is passed on to a backend that keeps it.

Its items and tools are read as those of Chat Completions; the answer is written as output items.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from stretto.foundation.arguments import safe_repr
from stretto.server.apis.answer_events import Ask
from stretto.server.apis.api_answer import EventWriter, ParsedBody, sse
from stretto.server.apis.bodies import MOST_MESSAGES, Count, Number, Small, check_number, check_tools, read_turns
from stretto.server.apis.chat import ResponseFormat, format_of
from stretto.server.apis.choices import logprobs_of, refused
from stretto.server.apis.extension import Extension, extension_of
from stretto.server.exchange import Exchange
from stretto.server.models import Served
from stretto.server.problems import Problem, read_as
from stretto.server.service import Service
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
from stretto.values.messages import Message
from stretto.values.request import RequestOptions
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import ToolCall

# Fields of a body that need state, a tool or a model that only OpenAI has.
_STATEFUL = ("previous_response_id", "conversation", "background", "prompt", "max_tool_calls")
_LET_GO = frozenset({"stretto", "store", "truncation", "include", "stream_options"})  # nothing is stored here anyway


class TextConfig(BaseModel):
    """The format of the text."""

    model_config = ConfigDict(extra="allow")

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesBody(BaseModel):
    """The request body."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(min_length=1)
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[Number | None, Field(ge=0, le=2)] = None
    top_p: Annotated[Number | None, Field(gt=0, le=1)] = None
    top_logprobs: Small | None = None
    stream: StrictBool | None = None
    text: TextConfig | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None


def read_responses(body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:  # noqa: ARG001 - as others
    """Parse a body of Responses. Raises `Problem`."""
    extension = Extension.of(body)
    request = read_as(ResponsesBody, body)
    served = service.models.find(request.model)
    for name in _STATEFUL:
        if body.get(name) not in (None, False):
            raise Problem(
                400,
                f"{name} cannot be used: this server keeps no responses. Send the whole conversation as input.",
                param=name,
                code="unsupported_parameter",
            )
    check_number("input", request.input, MOST_MESSAGES)
    messages = conversation_of(request.input)
    if request.instructions:
        messages = (Message(role="system", content=request.instructions), *messages)
    ask = Ask(served, messages, _options(request, served, extension))
    return ParsedBody([ask], bool(request.stream), ResponsesWriter(served.name, request, events=extension.events))


def _options(request: ResponsesBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {
        "strategy": served.strategy,
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "logprobs": request.top_logprobs,
        **extension.options,
    }
    tools = tools_of(request.tools or ())
    check_tools(tools, request.tool_choice)
    if tools:
        options["tools"], options["tool_choice"] = tools, tool_choice_of(request.tool_choice)
    extra = {name: value for name, value in (request.model_extra or {}).items() if value is not None}
    extra = {name: value for name, value in extra.items() if name not in _LET_GO and name not in _STATEFUL}
    if request.reasoning and request.reasoning.get("effort"):
        extra["reasoning_effort"] = request.reasoning["effort"]
    text = request.text or TextConfig()
    if text.verbosity:
        extra["verbosity"] = text.verbosity
    schema, verbatim = format_of(_chat_format(text.format), served)
    if schema is not None:
        options["response_format"] = schema
        options["strategy"] = extension.options.get("strategy") or served.whole
    if extra | verbatim:
        options["extra"] = extra | verbatim
    return options


def _chat_format(form: Mapping[str, Any] | None) -> ResponseFormat | None:
    """Return the format as Chat Completions has it, with the schema one level deeper."""
    if form is None:
        return None
    inner = {name: value for name, value in form.items() if name != "type" and value is not None}
    return ResponseFormat(type=str(form.get("type")), **({"json_schema": inner} if inner else {}))


_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "summary_text": "text", "refusal": "refusal"}


def conversation_of(given: str | Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return the messages that the items represent. Raises `Problem` for an item that cannot be used."""
    if isinstance(given, str):
        return (Message(role="user", content=given),)
    messages: list[dict[str, Any]] = []
    places: list[int] = []
    for place, item in enumerate(given):
        kind = item.get("type", "message")
        if kind == "message":
            content = item.get("content")
            messages.append({"role": item.get("role"), "content": _content(content, f"input.{place}.content")})
        elif kind in ("function_call", "custom_tool_call"):
            call = _call(item, kind)
            if messages and messages[-1]["role"] == "assistant":  # the calls of one turn belong together
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            output = _content(item.get("output"), f"input.{place}.output")
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        elif kind != "reasoning":  # which only the model that produced it can read
            raise _unknown(f"input.{place}.type", kind)
        places += [place] * (len(messages) - len(places))
    return read_turns(messages, "input", places)


def tools_of(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools. Raises `Problem` for those that OpenAI calls itself."""
    found = []
    for place, tool in enumerate(tools):
        kind = tool.get("type")
        if kind not in ("function", "custom"):
            raise _unknown(f"tools.{place}.type", kind)
        inner = {name: value for name, value in tool.items() if name != "type" and value is not None}
        found.append({"type": kind, kind: inner})
    return found


def tool_choice_of(choice: str | Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    """Return the tool choice in the format of Chat Completions."""
    if isinstance(choice, Mapping) and choice.get("type") in ("function", "custom") and "name" in choice:
        kind = choice["type"]
        return {"type": kind, kind: {"name": choice["name"]}}
    return dict(choice) if isinstance(choice, Mapping) else choice


def _content(content: Any, where: str) -> Any:
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and kind in _PARTS:
            parts.append({"type": "text", "text": part.get(_PARTS[kind], "")})
        elif kind == "input_image" and part.get("image_url"):
            detail = {} if part.get("detail") is None else {"detail": part["detail"]}
            parts.append({"type": "image_url", "image_url": {"url": part["image_url"]} | detail})
        elif kind == "input_file":
            file = {name: part[name] for name in ("file_data", "file_id", "filename") if part.get(name)}
            parts.append({"type": "file", "file": file})
        elif kind == "input_audio":
            parts.append(dict(part))
        else:
            raise _unknown(where, kind)
    return parts


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    if kind == "custom_tool_call":
        custom = {"name": item.get("name"), "input": item.get("input") or ""}
        return {"id": item.get("call_id"), "type": "custom", "custom": custom}
    function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
    return {"id": item.get("call_id"), "type": "function", "function": function}


def _unknown(where: str, kind: Any) -> Problem:
    return Problem(
        400,
        f"{where}={safe_repr(kind)} cannot be used here: only OpenAI itself knows what it is. Leave it out, or ask for "
        "a model of OpenAI's under its own name.",
        param=where,
        code="unsupported_value",
    )


_INCOMPLETE = {"refusal": "content_filter", "content_filter": "content_filter"}  # anything else: max_output_tokens
_WHOLE = ("stop", "nothing_found", "tool_calls")


class ResponsesWriter(EventWriter):
    """A writer for one answer in the format of Responses: output items, each with a start, deltas and an end."""

    def __init__(self, model: str, request: ResponsesBody, *, events: bool) -> None:
        super().__init__(events=events)
        given = request.model_extra or {}
        self._response: dict[str, Any] = {
            "id": f"resp_{uuid.uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "completed_at": None,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": None,
            "metadata": given.get("metadata") or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
            "presence_penalty": _number(given.get("presence_penalty")),
            "frequency_penalty": _number(given.get("frequency_penalty")),
            "prompt_cache_key": given.get("prompt_cache_key"),
            "previous_response_id": None,
            "reasoning": {"effort": (request.reasoning or {}).get("effort"), "summary": None},
            "safety_identifier": given.get("safety_identifier"),
            "service_tier": "default",
            "store": False,
            "temperature": 1.0 if request.temperature is None else request.temperature,
            "text": {"format": (request.text and request.text.format) or {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": [_tool_shown(tool) for tool in request.tools or ()],
            "top_logprobs": request.top_logprobs or 0,
            "top_p": 1.0 if request.top_p is None else request.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": given.get("user"),
        }
        self._message_id = f"msg_{uuid.uuid4().hex}"
        self._number = 0
        self._text: list[str] | None = None  # chunks of the message, once it has begun
        self._refused = False
        self._is_direct = False
        self._logprobs: tuple[TokenLogprob, ...] = ()  # of text that has not been sent yet
        self._calls: dict[int, dict[str, Any]] = {}  # by index: the item as it began, with its place
        self._places = self._place = 0

    def whole(self, answers: Sequence[Answer]) -> Any:
        answer = answers[0]
        output = [self._message(answer)] if answer.text or not answer.tool_calls else []
        output += [_call_item(call) for call in answer.tool_calls]
        return self._ended(answer, output)

    def closing(self) -> bytes:
        """Return what ends the stream: nothing after the last event."""
        return b""

    def broken(self, problem: Problem) -> bytes:
        """Return what ends a stream after an error."""
        error = {"code": "server_error", "message": problem.message}
        return self._event("response.failed", response=self._response | {"status": "failed", "error": error})

    def written(self, event: Event) -> bytes:
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
                kind, extra = ("refusal", {}) if self._refused else ("output_text", {"logprobs": logprobs})
                return begin + self._event(
                    f"response.{kind}.delta", **self._where, delta=event.text, content_index=0, **extra
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
            fields = {name: value for name, value in part.items() if name not in ("type", "annotations")}
            frames += self._event(f"response.{part['type']}.done", **self._where, content_index=0, **fields)
            frames += self._event("response.content_part.done", **self._where, content_index=0, part=part)
            frames += self._event("response.output_item.done", output_index=self._place, item=item)
        for index, call in enumerate(answer.tool_calls):
            begun = self._calls.get(index)
            if begun is None:  # one that was not streamed in pieces
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
    """Return a tool with all fields that a response has, including those that the request left out."""
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
