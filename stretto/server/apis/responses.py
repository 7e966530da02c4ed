"""``/v1/responses``: OpenAI's newer API. What this server keeps no state for is passed on to a backend that does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from stretto.server.apis.answer_events import Ask
from stretto.server.apis.api_answer import ParsedBody
from stretto.server.apis.chat import ResponseFormat, format_of
from stretto.server.apis.extension import Extension
from stretto.server.apis.fields import MOST_MESSAGES, Count, Number, Small, check_number, check_tools
from stretto.server.apis.response_items import conversation_of, tool_choice_of, tools_of
from stretto.server.apis.responses_writer import ResponsesWriter
from stretto.server.exchange import Exchange
from stretto.server.models import Served
from stretto.server.problems import Problem, read_as
from stretto.server.service import Service
from stretto.values.messages import Message
from stretto.values.request import RequestOptions

# Fields of a body that need a state, a tool or a model that only OpenAI has.
_STATEFUL = ("previous_response_id", "conversation", "background", "prompt", "max_tool_calls")
_LET_GO = frozenset({"stretto", "store", "truncation", "include", "stream_options"})  # nothing is kept here anyway


class TextConfig(BaseModel):
    """The form of the text."""

    model_config = ConfigDict(extra="allow")

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesBody(BaseModel):
    """The body of a request."""

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


class Responses:
    """The adapter of Responses."""

    def read(self, body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:  # noqa: ARG002 - as others
        """Read a body. Raises `Problem`."""
        extension = Extension.of(body)
        asked = read_as(ResponsesBody, body)
        served = service.models.find(asked.model)
        for name in _STATEFUL:
            if body.get(name) not in (None, False):
                raise Problem(
                    400,
                    f"{name} cannot be used: this server keeps no responses. Send the whole conversation as input.",
                    param=name,
                    code="unsupported_parameter",
                )
        check_number("input", asked.input, MOST_MESSAGES)
        messages = conversation_of(asked.input)
        if asked.instructions:
            messages = (Message(role="system", content=asked.instructions), *messages)
        ask = Ask(served, messages, _options(asked, served, extension))
        return ParsedBody([ask], bool(asked.stream), ResponsesWriter(served.name, asked, events=extension.events))

    def envelope(self, problem: Problem, exchange: Exchange) -> Any:  # noqa: ARG002 - Anthropic's needs it
        """An error as JSON."""
        return problem.as_openai()


def _options(asked: ResponsesBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {
        "strategy": served.strategy,
        "max_tokens": asked.max_output_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "logprobs": asked.top_logprobs,
        **extension.options,
    }
    tools = tools_of(asked.tools or ())
    check_tools(tools, asked.tool_choice)
    if tools:
        options["tools"], options["tool_choice"] = tools, tool_choice_of(asked.tool_choice)
    extra = {name: value for name, value in (asked.model_extra or {}).items() if value is not None}
    extra = {name: value for name, value in extra.items() if name not in _LET_GO and name not in _STATEFUL}
    if asked.reasoning and asked.reasoning.get("effort"):
        extra["reasoning_effort"] = asked.reasoning["effort"]
    text = asked.text or TextConfig()
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
    """The format in the form of Chat Completions, which has the schema one level deeper."""
    if form is None:
        return None
    inner = {name: value for name, value in form.items() if name != "type" and value is not None}
    return ResponseFormat(type=str(form.get("type")), **({"json_schema": inner} if inner else {}))
