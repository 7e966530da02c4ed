"""``/v1/chat/completions``: OpenAI's API that all clients share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from stretto.answer import Answer, FinishReason, TokenLogprob, Usage
from stretto.events import AnswerFinished, BranchStarted, Event, RouteChosen, TextDelta
from stretto.request import RequestOptions
from stretto.server.answering import Ask, Reading, sse
from stretto.server.exchange import Exchange
from stretto.server.extension import Extension, named_event, told_of
from stretto.server.models import Served
from stretto.server.problems import Problem, of_validation
from stretto.server.service import Service

DONE = b"data: [DONE]\n\n"
# An answer that is not whole for whatever reason says "length", the one word for it that all clients know.
FINISH: dict[FinishReason, str] = {"stop": "stop", "refusal": "content_filter"}
CUT = "length"


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
        """Whether the stream ends with a chunk of its own for the usage."""
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


class ResponseFormat(BaseModel):
    """The form that the answer shall have."""

    model_config = ConfigDict(extra="allow")

    type: str
    json_schema: dict[str, Any] | None = None


class ChatBody(Sampling):
    """The body of a request."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    response_format: ResponseFormat | None = None


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
        ask = Ask(served, asked.messages, _options(asked, served, extension))
        scribe = ChatScribe(served.name, include_usage=asked.include_usage, events=extension.events)
        return Reading([ask], bool(asked.stream), scribe)

    def envelope(self, problem: Problem, exchange: Exchange) -> Any:  # noqa: ARG002 - Anthropic's needs it
        """An error as JSON."""
        return problem.as_openai()


def _options(asked: ChatBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {"strategy": served.strategy, **asked.sampling, **extension.options}
    options["max_tokens"] = asked.max_completion_tokens or asked.max_tokens
    if asked.logprobs:
        options["logprobs"] = asked.top_logprobs or 0
    schema = _schema(asked.response_format)
    if schema is not None:
        options["response_format"] = schema
    return options


def _schema(given: ResponseFormat | None) -> dict[str, Any] | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return {"type": "object"}
    schema = (given.json_schema or {}).get("schema")
    if given.type != "json_schema" or not isinstance(schema, dict):
        raise Problem(
            400,
            'response_format takes {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}, '
            '{"type": "json_object"} or {"type": "text"}.',
            param="response_format",
            code="invalid_value",
        )
    return schema


class ChatScribe:
    """Writes one answer as Chat Completions do.

    A stream is: a chunk with the role, chunks with content, an empty one with the finish reason, one with the usage
    where it was asked for, and ``[DONE]``.
    """

    def __init__(self, model: str, *, include_usage: bool, events: bool) -> None:
        self._frame = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
        }
        self._include_usage = include_usage
        self._events = events
        self._opening = b""
        self._begun = False
        self._usage: dict[str, Any] = {}

    def whole(self, answers: Sequence[Answer]) -> Any:
        """The response as JSON."""
        answer = answers[0]
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": logprobs_of(answer.logprobs),
            "finish_reason": finish_of(answer.finish_reason),
        }
        return self._frame | {"choices": [choice], "usage": usage_of(answer.usage), "stretto": told_of(answer)}

    def frames(self, index: int, event: Event) -> bytes:  # noqa: ARG002 - there is one answer
        """What an event adds to the stream."""
        frames = self._chunks(event)
        if self._events and (named := named_event(event, self._chunk_frame | {"choices": []})):
            name, data = named
            frames += sse(data, name)
        if not self._begun and isinstance(event, RouteChosen | BranchStarted):
            self._opening += frames  # until there is more, the request may still fail with a status of its own
            return b""
        if frames and not self._begun:
            self._begun = True
            return self._opening + frames
        return frames

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
                return self._chunk({"role": "assistant", "content": ""}, told)
            case TextDelta():
                return self._chunk({"content": event.text})
            case AnswerFinished():
                self._usage = usage_of(event.answer.usage)
                return self._chunk(
                    {},
                    {"stretto": told_of(event.answer, route=False)},
                    finish_reason=finish_of(event.answer.finish_reason),
                    logprobs=logprobs_of(event.answer.logprobs),
                )
        return b""

    def _chunk(
        self,
        delta: dict[str, Any],
        beside: dict[str, Any] | None = None,
        *,
        finish_reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        chunk = self._chunk_frame | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return sse(chunk | beside if beside else chunk)


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
