"""``/v1/chat/completions``: the OpenAI API that all clients share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from stretto.foundation.arguments import safe_repr
from stretto.server.apis.answer_events import Ask
from stretto.server.apis.api_answer import EventWriter, ParsedBody, sse
from stretto.server.apis.bodies import MOST_STOPS, Count, Number, Seed, Small, check_number, check_tools, read_turns
from stretto.server.apis.choices import call_piece_of, choices_of, finish_of_choice, logprobs_of, message_of, usage_of
from stretto.server.apis.extension import Extension, extension_of
from stretto.server.apis.proxy import responding
from stretto.server.exchange import Exchange
from stretto.server.models import Served
from stretto.server.problems import Problem, read_as
from stretto.server.service import Service
from stretto.values.answer import Answer
from stretto.values.events import (
    AnswerFinished,
    BranchDelta,
    ChoiceDelta,
    Event,
    RefusalStarted,
    RouteChosen,
    TextDelta,
    ThoughtFinished,
    ToolCallDelta,
)
from stretto.values.request import RequestOptions
from stretto.values.token_records import TokenLogprob
from stretto.values.tool_calls import reasoning_of

DONE = b"data: [DONE]\n\n"
# Clients send these with every request; they change nothing, but would prevent writing an answer in parts.
_USUAL: Mapping[str, Any] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logit_bias": {},
    "best_of": 1,
    "modalities": ["text"],
    "functions": [],
}


class StreamOptions(BaseModel):
    """How to stream."""

    include_usage: StrictBool | None = None


class Sampling(BaseModel):
    """The fields that OpenAI's two older APIs have in common. Unknown fields are let through."""

    model_config = ConfigDict(extra="allow", strict=False)

    model: str = Field(min_length=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    temperature: Annotated[Number | None, Field(ge=0, le=2)] = None
    top_p: Annotated[Number | None, Field(gt=0, le=1)] = None
    stop: str | list[str] | None = None
    seed: Seed | None = None

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a separate chunk for the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def sampling(self) -> RequestOptions:
        """The fields as keyword arguments of a client."""
        found: RequestOptions = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": self.stop or None,
            "seed": self.seed,
        }
        return found

    def unknown_fields(self, served: Served) -> dict[str, Any]:
        """Return the unknown fields, for the model's server, without those that have no effect."""
        given = {name: value for name, value in (self.model_extra or {}).items() if value is not None}
        given.pop("stretto", None)
        if served.own:
            return given
        return {name: value for name, value in given.items() if name not in _USUAL or _USUAL[name] != value}


class ResponseFormat(BaseModel):
    """The format that the answer must have."""

    model_config = ConfigDict(extra="allow")

    type: str
    json_schema: dict[str, Any] | None = None


class ChatBody(Sampling):
    """The request body."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_completion_tokens: Count | None = None
    n: Annotated[Count | None, Field(le=128)] = None
    logprobs: StrictBool | None = None
    top_logprobs: Small | None = None
    response_format: ResponseFormat | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None

    def check_form(self, served: Served) -> None:
        """Raise `Problem` if the answer has a format that only OpenAI knows and the model's server can write it."""
        given = self.model_extra or {}
        named = [name for name in ("functions", "web_search_options") if given.get(name) not in (None, [])]
        if not isinstance(modalities := given.get("modalities") or [], list):
            message = f'modalities={safe_repr(modalities)} cannot be used: it takes a list, such as ["text"].'
            raise Problem(400, message, param="modalities", code="invalid_value")
        if "audio" in modalities:
            named.append("modalities")
        if named and responding(served) is not None:
            message = f"{named[0]} cannot be used: only the model's server writes such answers."
            raise Problem(400, message, param=named[0], code="unsupported_parameter")


def read_chat(
    body: dict[str, Any],
    service: Service,
    exchange: Exchange,  # noqa: ARG001 - as others
    *,
    only_routed: bool = False,
) -> ParsedBody:
    """Parse a body of Chat Completions. Raises `Problem`.

    ``only_routed``: nothing is generated, so the response format does not matter.
    """
    extension = Extension.of(body)
    request = read_as(ChatBody, body)
    served = service.models.find(request.model)
    if not only_routed:
        request.check_form(served)
    check_tools(request.tools, request.tool_choice)
    check_number("stop", request.stop, MOST_STOPS)
    turns = read_turns(request.messages, "messages")
    ask = Ask(served, turns, _options(request, served, extension))
    writer = ChatWriter(served.name, include_usage=request.include_usage, events=extension.events, own=served.own)
    return ParsedBody([ask], bool(request.stream), writer)


def _options(request: ChatBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {"strategy": served.strategy, **request.sampling, **extension.options}
    options["max_tokens"] = request.max_completion_tokens or request.max_tokens
    if request.logprobs:
        options["logprobs"] = request.top_logprobs or 0
    if request.tools:
        options["tools"], options["tool_choice"] = request.tools, request.tool_choice
    if (request.n or 1) > 1:
        options["n"] = request.n
    extra = request.unknown_fields(served)
    schema, verbatim = format_of(request.response_format, served)
    if schema is not None:
        options["response_format"] = schema
        options["strategy"] = extension.options.get("strategy") or served.whole
    if extra | verbatim:
        options["extra"] = extra | verbatim
    return options


def format_of(given: ResponseFormat | None, served: Served) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the format that constrains the answer, and what to send instead if the model's server supports more.

    Raises `Problem`.
    """
    if given is None or given.type == "text":
        return None, {}
    able, form = served.client.backends["main"].capabilities, "json_schema"
    compatible = responding(served) is not None
    if compatible and (served.own or given.type == "json_object" or (given.type != form and not able.json_schema)):
        return None, {"response_format": given.model_dump(exclude_none=True)}
    if given.type == "json_object":
        return {"type": "object"}, {}
    schema = (given.json_schema or {}).get("schema")
    if given.type != form or not isinstance(schema, dict):
        raise Problem(
            400,
            'response_format takes {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}, '
            '{"type": "json_object"} or {"type": "text"}.',
            param="response_format",
            code="invalid_value",
        )
    return {"type": form, form: given.json_schema}, {}


class ChatWriter(EventWriter):
    """A writer for the answers to one request in the format of Chat Completions.

    A stream is: a chunk with the role, chunks with content or tool calls, an empty one with the finish reason, one
    with the usage if requested, and ``[DONE]``. The chunks of multiple choices are interleaved, each with its index.
    The other fields of the backend's response are passed on under the backend's ``own`` name.
    """

    def __init__(self, model: str, *, include_usage: bool, events: bool, own: bool = False) -> None:
        self._frame = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
        }
        self._include_usage = include_usage
        super().__init__(events=events, event_fields=self._chunk_frame | {"choices": []})
        self._usage: dict[str, Any] = {}
        self._refused: set[int] = set()  # choices whose text is a refusal
        self._own = own
        self._route: dict[str, Any] | None = None  # sent with the first chunk
        self._begun: set[int] = set()  # choices
        self._is_direct = False
        self._logprobs: tuple[TokenLogprob, ...] = ()  # of text that has not been sent yet
        self._logprobs_sent: dict[int, int] = {}  # by choice, log-probabilities sent so far

    def whole(self, answers: Sequence[Answer]) -> Any:
        answer = answers[0]
        choices: list[dict[str, Any]] = [
            {
                "index": index,
                "message": message_of(choice),
                "logprobs": logprobs_of(choice.logprobs),
                "finish_reason": finish_of_choice(choice),
            }
            for index, choice in enumerate(choices_of(answer))
        ]
        for field, thought in map(reasoning_of, answer.thoughts):
            choices[0]["message"][field] = choices[0]["message"].get(field, "") + thought
        extra = self._extra(answer)
        if annotations := extra.pop("annotations", None):
            choices[0]["message"]["annotations"] = annotations
        whole = {"choices": choices, "usage": usage_of(answer.usage), "stretto": extension_of(answer)}
        return self._frame | extra | whole

    def _extra(self, answer: Answer) -> dict[str, Any]:
        return dict(answer.extra) if self._own else {}

    def closing(self) -> bytes:
        if not self._include_usage:
            return DONE
        return sse(self._chunk_frame | {"choices": [], "usage": self._usage}) + DONE

    def broken(self, problem: Problem) -> bytes:
        """Return what ends a stream after an error."""
        return sse(problem.as_openai()) + DONE

    @property
    def _chunk_frame(self) -> dict[str, Any]:
        return self._frame | {"object": "chat.completion.chunk"}

    def written(self, event: Event) -> bytes:
        match event:
            case RouteChosen():
                self._route = {"stretto": {"route": event.route.model_dump(mode="json")}}
                self._is_direct = event.route.strategy == "direct"
                return self._begin(0, "") if self._events else b""
            case BranchDelta() if self._is_direct and event.branch_id == "direct":
                self._logprobs += event.logprobs
            case TextDelta() | ChoiceDelta():
                return self._text(event)
            case ThoughtFinished():
                field, thought = reasoning_of(event.thought)
                return self._begin(0, "") + self._chunk(0, {field: thought}) if thought else b""
            case RefusalStarted():
                self._refused.add(event.choice)
            case ToolCallDelta():
                begin = self._begin(event.choice, None)
                return begin + self._chunk(event.choice, {"tool_calls": [call_piece_of(event.delta)]})
            case AnswerFinished():
                self._usage = usage_of(event.answer.usage)
                return self._end(event.answer)
        return b""

    def _end(self, answer: Answer) -> bytes:
        frames = b""
        extra = self._extra(answer)
        annotations = extra.pop("annotations", None)
        for index, choice in enumerate(choices_of(answer)):
            frames += self._begin(index, "")
            delta = {"annotations": annotations} if annotations and index == 0 else {}
            shown = {"stretto": extension_of(answer, route=False)} if index == 0 else {}
            left = choice.logprobs[self._logprobs_sent.get(index, 0) :]
            frames += self._chunk(index, delta, extra | shown, logprobs=left, finish=finish_of_choice(choice))
        return frames

    def _begin(self, index: int, content: str | None) -> bytes:
        """Return a choice's chunk with the role; as at OpenAI, one that begins with a tool call has no content."""
        if index in self._begun:
            return b""
        self._begun.add(index)
        return self._chunk(index, {"role": "assistant", "content": content}, self._route if index == 0 else None)

    def _text(self, event: TextDelta | ChoiceDelta) -> bytes:
        if isinstance(event, TextDelta):
            choice, logprobs, self._logprobs = 0, self._logprobs, ()
        else:
            choice, logprobs = event.choice, event.logprobs
        self._logprobs_sent[choice] = self._logprobs_sent.get(choice, 0) + len(logprobs)
        delta = {"refusal" if choice in self._refused else "content": event.text}
        return self._begin(choice, "") + self._chunk(choice, delta, logprobs=logprobs)

    def _chunk(
        self,
        index: int,
        delta: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        *,
        logprobs: Sequence[TokenLogprob] = (),
        finish: str | None = None,
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs_of(logprobs), "finish_reason": finish}
        chunk = self._chunk_frame | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk | dict(extra or {}))
