"""``/v1/messages``: Anthropic's API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from stretto.backends.base import ModelRequest
from stretto.foundation.arguments import safe_repr
from stretto.server.apis.answer_events import Ask
from stretto.server.apis.api_answer import EventWriter, ParsedBody, sse
from stretto.server.apis.bodies import MOST_STOPS, Count, Number, check_number, check_tools, read_object, read_turns
from stretto.server.apis.extension import Extension, extension_of
from stretto.server.exchange import Exchange
from stretto.server.models import Served
from stretto.server.problems import Problem, of_error, read_as
from stretto.server.service import Service
from stretto.values.answer import Answer, FinishReason, Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import StrettoError
from stretto.values.events import AnswerFinished, Event, RouteChosen, TextDelta, ThoughtFinished, ToolCallDelta
from stretto.values.messages import Message
from stretto.values.request import Request, RequestOptions
from stretto.values.tool_calls import ANTHROPIC_THOUGHTS, ToolCall, is_listed, reasoning_of

_STOP_UNREPORTED = "stop_reason may be stop_sequence: {} does not report whether a stop text ended its answer."
_ROLES = ("user", "assistant", "system")
_ONLY_ANTHROPIC = ("container", "context_management")


def _is_anthropic(served: Served) -> bool:
    return served.backend.name.startswith("anthropic:")


def _samples_here(served: Served) -> bool:
    return served.backend.name.startswith("local:")


class MessagesBody(BaseModel):
    """The request body."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(min_length=1)
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_tokens: Count | None = None
    system: str | list[dict[str, Any]] | None = None
    stop_sequences: list[str] | None = None
    stream: StrictBool | None = None
    temperature: Annotated[Number | None, Field(ge=0, le=1)] = None
    top_p: Annotated[Number | None, Field(gt=0, le=1)] = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None

    @property
    def thinks(self) -> bool:
        """Whether thoughts are expected. Clients that did not ask for any take the first block for the text."""
        thinking = (self.model_extra or {}).get("thinking")
        return isinstance(thinking, dict) and thinking.get("type") != "disabled"

    def check_tools(self, served: Served) -> None:
        """Raise `Problem` for tools that only Anthropic can run if the model is on another server."""
        if not _is_anthropic(served):
            if (self.model_extra or {}).get("mcp_servers"):
                message = f"mcp_servers cannot be used: {served.backend.name} calls no MCP servers. Leave it out."
                raise Problem(400, message, param="mcp_servers", code="unsupported_parameter")
            for place, tool in enumerate(self.tools or ()):
                kind, where = tool.get("type"), f"tools.{place}.type"
                if kind not in (None, "custom", "function") or not ("input_schema" in tool or "function" in tool):
                    message = (
                        f"{where}={safe_repr(kind)} cannot be used: {served.backend.name} takes tools with a name and "
                        "an input_schema, and Anthropic's own tools run at Anthropic only. Leave it out."
                    )
                    raise Problem(400, message, param=where, code="unsupported_value")
            check_tools(self.tools, self.tool_choice)

    def without_effect(self, served: Served) -> list[AnswerWarning]:
        """Return warnings for the fields that only Anthropic's models read, if the model is another one."""
        if _is_anthropic(served):
            return []
        given = self.model_extra or {}
        thinking = given.get("thinking")
        named = [name for name in _ONLY_ANTHROPIC if given.get(name) is not None]
        if given.get("top_k") is not None and not _samples_here(served):
            named.append("top_k")
        if isinstance(thinking, dict) and thinking.get("budget_tokens") is not None:
            named.append("thinking.budget_tokens")
        named += [f"output_config.{name}" for name in self.output_config or () if name != "format"]
        if given.get("service_tier") not in (None, "auto"):
            named.append("service_tier")
        reason = f"was left out: {served.backend.name} is not one of Anthropic's models."
        return [AnswerWarning(f"{name} {reason}", "option") for name in named]

    def conversation(self) -> tuple[Message, ...]:
        """Return the messages, system message first. Raises `Problem`."""
        for place, turn in enumerate(self.messages):
            if (role := turn.get("role")) not in _ROLES:
                where = f"messages.{place}.role"
                message = f"{where}={safe_repr(role)} cannot be used: it takes one of {', '.join(_ROLES)}."
                raise Problem(400, message, param=where, code="invalid_value")
        turns = read_turns(self.messages, "messages")
        return (*read_turns([{"role": "system", "content": self.system}], "system"), *turns) if self.system else turns


def read_messages(body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:
    """Parse a body of Anthropic's Messages API. Raises `Problem`."""
    extension = Extension.of(body)
    request = read_as(MessagesBody, body)
    if request.max_tokens is None:
        raise Problem(400, "Field required", param="max_tokens", code="missing_required_parameter")
    served = service.models.find(request.model)
    request.check_tools(served)
    check_number("stop_sequences", request.stop_sequences, MOST_STOPS)
    warnings = request.without_effect(served)
    ask = Ask(served, request.conversation(), _options(request, served, extension))
    writer = MessagesWriter(served.name, exchange.id, events=extension.events, thinks=request.thinks, warnings=warnings)
    if request.stop_sequences and not (_is_anthropic(served) or _samples_here(served)):
        writer.stop_warning = AnswerWarning(_STOP_UNREPORTED.format(served.backend.name), "option")
    return ParsedBody([ask], bool(request.stream), writer)


async def count_tokens(service: Service, exchange: Exchange) -> None:
    """Respond with the number of tokens in a request's prompt, as far as its backend can count them."""
    parsed = read_as(MessagesBody, await read_object(exchange.receive, exchange.headers, service.options))
    served = service.models.find(parsed.model)
    parsed.check_tools(served)
    backend = served.client.backends["main"]
    try:
        request = Request.of(parsed.conversation(), tools=parsed.tools)
        async with exchange.attended(), service.admission.admitted(exchange.holder, exchange.end):
            counted = await backend.count_tokens(ModelRequest(request.messages, tools=request.tools))
    except StrettoError as error:
        raise of_error(error) from error
    await exchange.send_json({"input_tokens": counted})


def _options(request: MessagesBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {
        "strategy": served.strategy,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.stop_sequences or None,
        **extension.options,
    }
    if request.tools:
        options["tools"], options["tool_choice"] = request.tools, request.tool_choice
    output = dict(request.output_config or {})
    form = output.pop("format", None)
    if isinstance(form, dict) and form.get("type") == "json_schema" and isinstance(form.get("schema"), dict):
        options["response_format"] = form["schema"]
        options["strategy"] = extension.options.get("strategy") or served.whole
    elif form is not None:
        message = 'output_config.format takes {"type": "json_schema", "schema": {...}}.'
        raise Problem(400, message, param="output_config.format", code="invalid_value")
    extra = {name: value for name, value in (request.model_extra or {}).items() if value is not None}
    extra.pop("stretto", None)
    if output:
        extra["output_config"] = output
    if not _is_anthropic(served):
        # Other servers have no thinking budgets or cache controls; all of them have a user id.
        who = (extra.get("metadata") or {}).get("user_id") if isinstance(extra.get("metadata"), dict) else None
        known = ("top_k", "chat_template_kwargs") if _samples_here(served) else ("chat_template_kwargs",)
        kept = {name: extra[name] for name in known if name in extra}
        extra = ({"user": who} if isinstance(who, str) else {}) | kept
    if extra:
        options["extra"] = extra
    return options


_STOP: dict[FinishReason, str] = {
    "stop": "end_turn",
    "nothing_found": "end_turn",
    "tool_calls": "tool_use",
    "refusal": "refusal",
    "content_filter": "refusal",
}
_CUT = "max_tokens"  # the only value for an answer that is incomplete


class MessagesWriter(EventWriter):
    """A writer for one answer in the format of the Messages API.

    A stream is: ``message_start``; for each content block its start, deltas and stop; ``message_delta`` with the stop
    reason and the usage; ``message_stop``. Blocks come one after the other: while a tool call is open, the fragments of
    other calls, thoughts and text are buffered.

    Attributes:
        stop_warning: a warning for an answer that does not say whether a stop sequence ended it.
    """

    def __init__(
        self, model: str, request_id: str, *, events: bool, thinks: bool, warnings: Sequence[AnswerWarning] = ()
    ) -> None:
        super().__init__(events=events)
        self._frame = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        self._request_id = request_id
        self._thinks = thinks
        self._warnings = warnings
        self.stop_warning: AnswerWarning | None = None
        self._blocks = 0  # started so far
        self._open: str | int | None = None  # "text", "thought", or the index of the tool call being streamed
        self._streamed: set[int] = set()  # tool calls that are being or have been streamed
        self._later = ""  # text that arrived while a tool call was open
        self._thoughts: list[dict[str, Any]] = []  # thoughts that arrived meanwhile

    def whole(self, answers: Sequence[Answer]) -> Any:
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
        if self.stop_warning is not None and _end(answer)["stop_reason"] == "end_turn":
            warnings.append(self.stop_warning)
        return extension_of(answer, warnings=warnings)

    def closing(self) -> bytes:
        return _event("message_stop")

    def broken(self, problem: Problem) -> bytes:
        """Return the event that ends a stream after an error."""
        return sse(problem.as_anthropic(self._request_id), "error")

    def written(self, event: Event) -> bytes:
        match event:
            case RouteChosen():
                usage = {"input_tokens": 0, "output_tokens": 0}  # not known yet; the last event reports it
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
        """Return a thought as a block; one from another API is unsigned, and is shown if thoughts were requested."""
        if thought.get("type") in ANTHROPIC_THOUGHTS and not is_listed(thought):
            return dict(thought)
        _, text = reasoning_of(thought)
        return {"type": "thinking", "thinking": text, "signature": ""} if text and self._thinks else None

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
                return b""  # sent as a whole at the end
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
    """Return why an answer ended, and at which stop sequence."""
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
    return found if isinstance(found, dict) else {"arguments": call.arguments}  # written by a model


def _usage(usage: Usage) -> dict[str, Any]:
    fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    return {
        "input_tokens": max(0, fresh),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
