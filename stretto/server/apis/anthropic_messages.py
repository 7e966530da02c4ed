"""``/v1/messages``: Anthropic's API."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from stretto.backends.base import ModelRequest
from stretto.foundation.arguments import safe_repr
from stretto.server.apis.answer_events import Ask
from stretto.server.apis.anthropic_writer import MessagesWriter
from stretto.server.apis.api_answer import ParsedBody
from stretto.server.apis.bodies import read_object, read_turns
from stretto.server.apis.extension import Extension
from stretto.server.apis.fields import MOST_STOPS, Count, Number, check_number, check_tools
from stretto.server.exchange import Exchange
from stretto.server.models import Served
from stretto.server.problems import Problem, of_error, read_as
from stretto.server.service import Service
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import StrettoError
from stretto.values.messages import Message
from stretto.values.request import Request, RequestOptions

_UNTOLD = "stop_reason may be stop_sequence: {} does not tell whether a stop text ended its answer."
_ROLES = ("user", "assistant", "system")
_ONLY_ANTHROPIC = ("container", "context_management")


def _is_anthropic(served: Served) -> bool:
    return served.backend.name.startswith("anthropic:")


def _samples_here(served: Served) -> bool:
    return served.backend.name.startswith("local:")


class MessagesBody(BaseModel):
    """The body of a request."""

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
        """Raise `Problem` for what only Anthropic can run, where the model's server is another one."""
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
        """Warnings of the fields that only Anthropic's models read, where the model is another one."""
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
        said = f"was left out: {served.backend.name} is not one of Anthropic's models."
        return [AnswerWarning(f"{name} {said}", "option") for name in named]

    def conversation(self) -> tuple[Message, ...]:
        """The messages, that of the system first. Raises `Problem`."""
        for place, turn in enumerate(self.messages):
            if (role := turn.get("role")) not in _ROLES:
                where = f"messages.{place}.role"
                message = f"{where}={safe_repr(role)} cannot be used: it takes one of {', '.join(_ROLES)}."
                raise Problem(400, message, param=where, code="invalid_value")
        turns = read_turns(self.messages, "messages")
        return (*read_turns([{"role": "system", "content": self.system}], "system"), *turns) if self.system else turns


class Messages:
    """The adapter of Anthropic's Messages."""

    def read(self, body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:
        """Read a body. Raises `Problem`."""
        extension = Extension.of(body)
        asked = read_as(MessagesBody, body)
        if asked.max_tokens is None:
            raise Problem(400, "Field required", param="max_tokens", code="missing_required_parameter")
        served = service.models.find(asked.model)
        asked.check_tools(served)
        check_number("stop_sequences", asked.stop_sequences, MOST_STOPS)
        warnings = asked.without_effect(served)
        ask = Ask(served, asked.conversation(), _options(asked, served, extension))
        writer = MessagesWriter(
            served.name, exchange.id, events=extension.events, thinks=asked.thinks, warnings=warnings
        )
        if asked.stop_sequences and not (_is_anthropic(served) or _samples_here(served)):
            writer.untold = AnswerWarning(_UNTOLD.format(served.backend.name), "option")
        return ParsedBody([ask], bool(asked.stream), writer)

    def envelope(self, problem: Problem, exchange: Exchange) -> Any:
        """An error as JSON."""
        return problem.as_anthropic(exchange.id)


async def count_tokens(service: Service, exchange: Exchange) -> None:
    """How many tokens a request's prompt has, as far as its backend can tell."""
    asked = read_as(MessagesBody, await read_object(exchange.receive, exchange.headers, service.options))
    served = service.models.find(asked.model)
    asked.check_tools(served)
    backend = served.client.backends["main"]
    try:
        request = Request.of(asked.conversation(), tools=asked.tools)
        async with exchange.attended(), service.admission.admitted(exchange.holder, exchange.end):
            counted = await backend.count_tokens(ModelRequest(request.messages, tools=request.tools))
    except StrettoError as error:
        raise of_error(error) from error
    await exchange.send_json({"input_tokens": counted})


def _options(asked: MessagesBody, served: Served, extension: Extension) -> RequestOptions:
    options: RequestOptions = {
        "strategy": served.strategy,
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "stop": asked.stop_sequences or None,
        **extension.options,
    }
    if asked.tools:
        options["tools"], options["tool_choice"] = asked.tools, asked.tool_choice
    output = dict(asked.output_config or {})
    form = output.pop("format", None)
    if isinstance(form, dict) and form.get("type") == "json_schema" and isinstance(form.get("schema"), dict):
        options["response_format"] = form["schema"]
        options["strategy"] = extension.options.get("strategy") or served.whole
    elif form is not None:
        message = 'output_config.format takes {"type": "json_schema", "schema": {...}}.'
        raise Problem(400, message, param="output_config.format", code="invalid_value")
    extra = {name: value for name, value in (asked.model_extra or {}).items() if value is not None}
    extra.pop("stretto", None)
    if output:
        extra["output_config"] = output
    if not _is_anthropic(served):
        # Others have no thinking budgets and cache controls; that a user's number is known to all.
        who = (extra.get("metadata") or {}).get("user_id") if isinstance(extra.get("metadata"), dict) else None
        known = ("top_k", "chat_template_kwargs") if _samples_here(served) else ("chat_template_kwargs",)
        kept = {name: extra[name] for name in known if name in extra}
        extra = ({"user": who} if isinstance(who, str) else {}) | kept
    if extra:
        options["extra"] = extra
    return options
