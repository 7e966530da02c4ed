"""``/v1/chat/completions``: OpenAI's API that all clients share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from stretto.answer import Answer, Choice
from stretto.events import (
    AnswerFinished,
    ChoiceDelta,
    Event,
    RefusalStarted,
    RouteChosen,
    TextDelta,
    ThoughtFinished,
    ToolCallPiece,
)
from stretto.request import RequestOptions
from stretto.server.answering import Ask, Opening, Reading, sse
from stretto.server.bodies import read_turns
from stretto.server.choices import call_piece_of, choices_of, finish_of_choice, logprobs_of, message_of, usage_of
from stretto.server.exchange import Exchange
from stretto.server.extension import Extension, named_event, told_of
from stretto.server.models import Served
from stretto.server.passing_on import responding
from stretto.server.problems import Problem, of_validation
from stretto.server.service import Service
from stretto.tool_calls import reasoning_of

DONE = b"data: [DONE]\n\n"
# Clients send these with every request; they change nothing, and would keep an answer from being written in parts.
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

    def check_form(self, served: Served) -> None:
        """Raise `Problem` where the answer has a form of OpenAI's own, and the model's server can write it."""
        given = self.model_extra or {}
        named = [name for name in ("functions", "web_search_options") if given.get(name) not in (None, [])]
        if "audio" in (given.get("modalities") or ()):
            named.append("modalities")
        if named and responding(served) is not None:
            message = f"{named[0]} cannot be used: only the model's server writes such answers."
            raise Problem(400, message, param=named[0], code="unsupported_parameter")


class Chat:
    """The dialect of Chat Completions.

    Args:
        only_routed: nothing is answered, so the form of the answer does not matter.
    """

    def __init__(self, *, only_routed: bool = False) -> None:
        self._only_routed = only_routed

    def read(self, body: dict[str, Any], service: Service, exchange: Exchange) -> Reading:  # noqa: ARG002 - as others
        """Read a body. Raises `Problem`."""
        extension = Extension.of(body)
        try:
            asked = ChatBody.model_validate(body)
        except ValidationError as error:
            raise of_validation(error) from None
        served = service.models.find(asked.model)
        if not self._only_routed:
            asked.check_form(served)
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
        self._refused: set[int] = set()  # choices whose text is a refusal

    def whole(self, answers: Sequence[Answer]) -> Any:
        """The response as JSON."""
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
            case TextDelta() | ChoiceDelta():
                choice = event.choice if isinstance(event, ChoiceDelta) else 0
                return self._chunk(choice, {"refusal" if choice in self._refused else "content": event.text})
            case ThoughtFinished():
                field, thought = reasoning_of(event.thought)
                return self._chunk(0, {field: thought}) if thought else b""
            case RefusalStarted():
                self._refused.add(event.choice)
            case ToolCallPiece():
                return self._chunk(event.choice, {"tool_calls": [call_piece_of(event.delta)]})
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
            "finish_reason": finish_of_choice(ended) if ended else None,
        }
        chunk = self._chunk_frame | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk | beside if beside else chunk)
