"""``/v1/chat/completions``: OpenAI's API that all clients share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from stretto.answer import Answer, Choice, FinishReason, TokenLogprob, Usage
from stretto.events import AnswerFinished, ChoiceDelta, Event, RouteChosen, TextDelta, ToolCallPiece
from stretto.request import RequestOptions
from stretto.server.answering import Ask, Opening, Reading, sse
from stretto.server.bodies import read_turns
from stretto.server.exchange import Exchange
from stretto.server.extension import Extension, named_event, told_of
from stretto.server.models import Served
from stretto.server.passing_on import responding
from stretto.server.problems import Problem, of_validation
from stretto.server.service import Service
from stretto.tool_calls import ToolCallDelta

DONE = b"data: [DONE]\n\n"
# An answer that is not whole for whatever reason says "length", the one word for it that all clients know.
FINISH: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
CUT = "length"
# Clients send these with every request; they change nothing, and would keep an answer from being written in parts.
_USUAL: Mapping[str, Any] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logit_bias": {},
    "best_of": 1,
    "modalities": ["text"],
}


class StreamOptions(BaseModel):
    """How to stream."""

    include_usage: StrictBool | None = None


class Sampling(BaseModel):
    """The fields that the two older APIs of OpenAI have in common. Fields that are not known are let through."""

    model_config = ConfigDict(extra="allow", strict=False)

    model: str = Field(min_length=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    stop: str | list[str] | None = None
    seed: int | None = None

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a separate chunk for the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def sampling(self) -> RequestOptions:
        """The same as keyword arguments of a client."""
        found: RequestOptions = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": self.stop or None,
            "seed": self.seed,
        }
        return found

    def beside(self, served: Served) -> dict[str, Any]:
        """The fields that are not known here, for the model's server; those that say nothing are left out."""
        given = {name: value for name, value in (self.model_extra or {}).items() if value is not None}
        given.pop("stretto", None)
        if served.own:
            return given
        return {name: value for name, value in given.items() if name not in _USUAL or _USUAL[name] != value}


class ResponseFormat(BaseModel):
    """The form that the answer shall have."""

    model_config = ConfigDict(extra="allow")

    type: str
    json_schema: dict[str, Any] | None = None


class ChatBody(Sampling):
    """The body of a request."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    n: Annotated[int | None, Field(ge=1, le=128)] = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    response_format: ResponseFormat | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None


class Chat:
    """The dialect of Chat Completions."""

    def read(self, body: dict[str, Any], service: Service, exchange: Exchange) -> Reading:  # noqa: ARG002 - as others
        """Read a body. Raises `Problem`."""
        extension = Extension.of(body)
        try:
            asked = ChatBody.model_validate(body)
        except ValidationError as error:
            raise of_validation(error) from None
        served = service.models.find(asked.model)
        turns = read_turns(asked.messages, "messages")
        ask = Ask(served, turns, _options(asked, served, extension))
        scribe = ChatScribe(
            served.name, include_usage=asked.include_usage, events=extension.events, choices=asked.n or 1
        )
        return Reading([ask], bool(asked.stream), scribe)

    def envelope(self, problem: Problem, exchange: Exchange) -> Any:  # noqa: ARG002 - Anthropic's needs it
        """An error as JSON."""
        return problem.as_openai()


def _options(asked: ChatBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {"strategy": served.strategy, **asked.sampling, **extension.options}
    options["max_tokens"] = asked.max_completion_tokens or asked.max_tokens
    if asked.logprobs:
        options["logprobs"] = asked.top_logprobs or 0
    if asked.tools:
        options["tools"], options["tool_choice"] = asked.tools, asked.tool_choice
    if (asked.n or 1) > 1:
        options["n"] = asked.n
    extra = asked.beside(served)
    schema, verbatim = format_of(asked.response_format, served)
    if schema is not None:
        options["response_format"] = schema
        options["strategy"] = extension.strategy or served.whole
    if extra | verbatim:
        options["extra"] = extra | verbatim
    return options


def format_of(given: ResponseFormat | None, served: Served) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The schema that an answer is held to, and what the model's server is told instead where it knows more than we.

    Raises `Problem`.
    """
    if given is None or given.type == "text":
        return None, {}
    able = served.client.backends["main"].capabilities
    compatible = responding(served) is not None
    if compatible and (served.own or given.type == "json_object" or not able.json_schema):
        return None, {"response_format": given.model_dump(exclude_none=True)}
    if given.type == "json_object":
        return {"type": "object"}, {}
    schema = (given.json_schema or {}).get("schema")
    if given.type != "json_schema" or not isinstance(schema, dict):
        raise Problem(
            400,
            'response_format takes {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}, '
            '{"type": "json_object"} or {"type": "text"}.',
            param="response_format",
            code="invalid_value",
        )
    return schema, {}


class ChatScribe:
    """Writes one request's answers as Chat Completions do.

    A stream is: a chunk with the role, chunks with content or tool calls, an empty one with the finish reason, one
    with the usage where it was asked for, and ``[DONE]``. Several choices come between each other, by their index.
    """

    def __init__(self, model: str, *, include_usage: bool, events: bool, choices: int = 1) -> None:
        self._frame = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
        }
        self._include_usage = include_usage
        self._events = events
        self._choices = choices
        self._opening = Opening(events=events)
        self._usage: dict[str, Any] = {}

    def whole(self, answers: Sequence[Answer]) -> Any:
        """The response as JSON."""
        answer = answers[0]
        choices = [
            {
                "index": index,
                "message": _message(choice),
                "logprobs": logprobs_of(choice.logprobs),
                "finish_reason": finish_of(choice.finish_reason),
            }
            for index, choice in enumerate(choices_of(answer))
        ]
        return self._frame | {"choices": choices, "usage": usage_of(answer.usage), "stretto": told_of(answer)}

    def frames(self, index: int, event: Event) -> bytes:  # noqa: ARG002 - there is one answer
        """What an event adds to the stream."""
        frames = self._chunks(event)
        if self._events and (named := named_event(event, self._chunk_frame | {"choices": []})):
            name, data = named
            frames += sse(data, name)
        return self._opening.due(event, frames)

    def closing(self) -> bytes:
        """What ends the stream."""
        if not self._include_usage:
            return DONE
        return sse(self._chunk_frame | {"choices": [], "usage": self._usage}) + DONE

    def broken(self, problem: Problem) -> bytes:
        """What ends a stream that cannot go on."""
        return sse(problem.as_openai()) + DONE

    @property
    def _chunk_frame(self) -> dict[str, Any]:
        return self._frame | {"object": "chat.completion.chunk"}

    def _chunks(self, event: Event) -> bytes:
        match event:
            case RouteChosen():
                told = {"stretto": {"route": event.route.model_dump(mode="json")}}
                role = {"role": "assistant", "content": ""}
                first = self._chunk(0, role, told)
                return first + b"".join(self._chunk(index, role) for index in range(1, self._choices))
            case TextDelta():
                return self._chunk(0, {"content": event.text})
            case ChoiceDelta():
                return self._chunk(event.choice, {"content": event.text})
            case ToolCallPiece():
                return self._chunk(event.choice, {"tool_calls": [_call_piece(event.delta)]})
            case AnswerFinished():
                self._usage = usage_of(event.answer.usage)
                told = {"stretto": told_of(event.answer, route=False)}
                return b"".join(
                    self._chunk(index, {}, told if index == 0 else None, ended=choice)
                    for index, choice in enumerate(choices_of(event.answer))
                )
        return b""

    def _chunk(
        self, index: int, delta: dict[str, Any], beside: dict[str, Any] | None = None, *, ended: Choice | None = None
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs_of(ended.logprobs) if ended else None,
            "finish_reason": finish_of(ended.finish_reason) if ended else None,
        }
        chunk = self._chunk_frame | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk | beside if beside else chunk)


def _message(choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
    if choice.finish_reason == "refusal":
        message["refusal"] = choice.text
    if choice.tool_calls:
        message["content"] = choice.text or None
        message["tool_calls"] = [call.as_openai() for call in choice.tool_calls]
    return message


def _call_piece(delta: ToolCallDelta) -> dict[str, Any]:
    piece: dict[str, Any] = {"index": delta.index}
    if delta.id is not None:
        piece["id"] = delta.id
    if delta.name is not None:
        piece["type"] = delta.type
    said = {} if delta.name is None else {"name": delta.name}
    piece[delta.type] = said | {"input" if delta.type == "custom" else "arguments": delta.arguments}
    return piece


def choices_of(answer: Answer) -> Sequence[Choice]:
    """The choices of an answer; one, where several were not asked for."""
    if answer.choices:
        return answer.choices
    return [
        Choice(
            text=answer.text,
            tool_calls=answer.tool_calls,
            finish_reason=answer.finish_reason,
            logprobs=answer.logprobs,
        )
    ]


def finish_of(reason: FinishReason) -> str:
    """OpenAI's word for how an answer ended."""
    return FINISH.get(reason, CUT)


def usage_of(usage: Usage) -> dict[str, Any]:
    """OpenAI's form of a usage."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def logprobs_of(told: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    """OpenAI's form of log-probabilities."""
    if not told:
        return None

    def one(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    content = [one(each.token, each.logprob) | {"top_logprobs": [one(*pair) for pair in each.top]} for each in told]
    return {"content": content, "refusal": None}
