"""A request: messages, documents, options and preference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stretto.foundation.arguments import expand_kwargs, safe_repr, unknown_names
from stretto.foundation.bounds import check_numbers
from stretto.foundation.validation import CheckedModel, explained
from stretto.values.budget import Budget
from stretto.values.content import mended, name_of_tool, read_tool, read_tool_choice
from stretto.values.document import Document
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import GenerationOptions, not_bool
from stretto.values.messages import Message, Role, documents_of, messages_of
from stretto.values.tools import Tool, tool_of

if TYPE_CHECKING:
    from stretto.documents.limits import ReadingTime
    from stretto.strategies.base import Strategy

Preference = Literal["fastest", "balanced", "careful"]
PromptLike = str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any] | str]
"""The forms of a prompt: a question, one turn, or the turns of a conversation."""

OnMissing = Literal["note", "omit", "raise"]
OnLoop = Literal["warn", "cut"]

ACCOMPANYING = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
        *("prompt_cache_retention", "inference_geo", "reasoning_effort", "verbosity", "parallel_tool_calls", "top_k"),
        "chat_template_kwargs",
    }
)
"""Body fields that mean the same for a part of an answer as for the whole."""

WHOLE = ("auto", "direct", "fields", "document", "cascade", "consensus", "collaborate")
"""Strategies that support a format for the answer as a whole; all others write in parts."""

_NOT_EXTRA = {
    "model": "is the client's: name it there",
    "messages": "is the prompt",
    "stream": "the library decides",
    "stream_options": "the library decides",
    "max_completion_tokens": "is max_tokens= here",
    **dict.fromkeys(
        ("max_tokens", "temperature", "top_p", "stop", "seed", "tools", "tool_choice", "n"),
        "is a separate argument",
    ),
}
_READ = {"documents", "strategy", "tools", "tool_choice", "extra", "chat_template_kwargs"}
"""Options that are converted before they become fields of a request."""
_OF_A_CLIENT = (
    *("api_key", "base_url", "fallback", "hooks", "prompt_family"),
    *("roles", "router", "settings", "strategies", "templates"),
)
_INSTEAD = {
    **{name: f"It belongs to the client: Stretto(model, {name}=...)." for name in _OF_A_CLIENT},
    "stream": "Use the method stream() instead of ask().",
    "timeout": "The seconds that an answer may take are deadline_s=.",
    "model": "The model is the client's: Stretto(model).",
}
_THINKING = ("enable_thinking", "thinking")
"""Arguments of chat templates that enable reasoning."""

_CALLED = {"image_url": "an image", "input_audio": "sound", "file": "a file", "video_url": "a video"}


class RequestOptions(TypedDict, total=False):
    """The keyword arguments of `Request.of` and of a client's ``ask``, ``stream`` and ``route``.

    All may be left out, and ``None`` counts as left out.

    Attributes:
        system: instructions for the model; becomes the first system message.
        documents: texts to read for the answer: a string is the text of one document, a ``Path`` a file or a folder.
        preference: "fastest", "balanced" or "careful": whether speed or care matters more.
        strategy: "auto" (the router decides), "direct", "skeleton", "items", "fields", "document", "rewrite",
            "cascade", "consensus", "collaborate", "forking", the name of one registered on the client, or a strategy
            object.
        strategy_options: options of the named strategy, such as ``{"samples": 9}`` for "consensus".
        on_missing: what to do about a part that could not be written: "note" puts a short note in its place, "omit"
            leaves it out, "raise" raises `IncompleteAnswerError` once the other parts are done.
        on_loop: what to do about a direct answer that repeats itself: "warn" adds a warning, "cut" ends it there. Parts
            of an answer are always cut.
        budget: the most the answer may cost. A strategy that is forecast to exceed its ``max_cost`` or ``deadline_s``
            is not used, and no call is made if all are.
        max_tokens: the most tokens of the whole answer, however many parts it has. Other generated text, such as an
            outline, only counts towards ``budget``.
        part_tokens: the most tokens of one part of an answer in parts.
        max_parallel_parts: the most parts of an answer (points or items) to write at the same time.
        temperature: from 0 (always the most probable token) to 2.
        top_p: sample from the most probable tokens that together have this probability.
        stop: one or more texts that end the answer.
        seed: seed for reproducible sampling, where supported.
        deadline_s: seconds that the whole answer may take, retries and waits included; whatever is written by then is
            the answer. In a `Budget`, it also rules out strategies that are forecast to take longer.
        decoding: the decoding method of a local model.
        adapter: the name of an adapter of a local model: ``LocalBackend(adapters=...)``.
        response_format: a JSON schema, also in OpenAI's forms around one, a pydantic model class, or, on local models,
            a regular expression.
        logprobs: report log-probabilities, and this many of the most probable tokens in each place (0 to 20).
        tools: functions that the model may call. Python functions, `Tool` objects and LangChain tools are called by the
            library, and the answer continues with their results. Calls to tools in OpenAI's or Anthropic's form are
            returned in ``Answer.tool_calls``.
        tool_choice: "auto", "none", "required", or the one tool to call, in OpenAI's or Anthropic's form.
        n: how many answers to write; all of them are in ``Answer.choices``.
        chat_template_kwargs: arguments for the chat template of an open model, such as ``{"enable_thinking": True}``;
            for local models, and for servers that accept this field, such as vLLM, SGLang and llama.cpp.
        extra: other body fields for the model's server (logit_bias, metadata, ...), passed through unchanged.
    """

    system: str | None
    documents: str | Path | Document | Sequence[str | Path | Document] | None
    preference: Preference | None
    strategy: str | Strategy | None
    strategy_options: Mapping[str, Any] | None
    on_missing: OnMissing | None
    on_loop: OnLoop | None
    budget: Budget | None
    max_tokens: int | None
    part_tokens: int | None
    max_parallel_parts: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str] | None
    seed: int | None
    deadline_s: float | None
    decoding: str | None
    adapter: str | None
    response_format: Mapping[str, Any] | type[BaseModel] | str | None
    logprobs: int | None
    tools: Sequence[Mapping[str, Any] | Callable[..., Any] | Tool] | None
    tool_choice: str | Mapping[str, Any] | None
    n: int | None
    chat_template_kwargs: Mapping[str, Any] | None
    extra: Mapping[str, Any] | None


class Request(CheckedModel):
    """One question with everything that belongs to it. Frozen; created by ``Request.of``.

    `RequestOptions` documents the fields named like an option.

    Attributes:
        messages: the conversation. If it ends with an assistant turn, the answer continues that turn.
        documents: texts to read for the answer.
        unread: a note on each file of a folder that could not be read, and on each text that looks like a file name.
        options: how to sample and when to stop.
        strategy: the name of a strategy, or "auto".
        tools: functions that the model may call, in OpenAI's form.
        functions: those that the library calls, as `Tool`; left out of JSON.
        own_strategy: the strategy object, if a caller passed one; left out of JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Message, ...]
    documents: tuple[Document, ...] = ()
    unread: tuple[str, ...] = ()
    options: GenerationOptions = GenerationOptions()
    preference: Preference = "balanced"
    budget: Budget = Budget()
    deadline_s: float | None = Field(default=None, gt=0)
    part_tokens: int | None = Field(default=None, ge=1)
    max_parallel_parts: int | None = Field(default=None, ge=1)
    strategy: str = "auto"
    strategy_options: Mapping[str, Any] = Field(default_factory=dict)
    on_missing: OnMissing = "note"
    on_loop: OnLoop = "warn"
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    n: int = Field(default=1, ge=1, le=128)
    extra: Mapping[str, Any] = Field(default_factory=dict)
    functions: tuple[Any, ...] = Field(default=(), exclude=True, repr=False)
    own_strategy: Any = Field(default=None, exclude=True, repr=False)  # a Strategy, which this module does not import

    _a_number = field_validator(
        *(name for name, kind in __annotations__.items() if kind.startswith(("int", "float"))), mode="before"
    )(not_bool)

    @classmethod
    @expand_kwargs(RequestOptions)
    def of(cls, prompt: PromptLike | Request, **options: Unpack[RequestOptions]) -> Request:
        """Create a request from a prompt and options.

        ``prompt`` is a string (one user message), a message, a mapping with ``role`` and ``content``, a list of
        these, or a request to change. `RequestOptions` says what the options mean. Raises `InvalidRequestError`.
        """
        return cls._of(prompt, options)

    @classmethod
    def _of(
        cls, prompt: PromptLike | Request, options: RequestOptions, allowance: ReadingTime | None = None
    ) -> Request:
        """Create a request like `of`, with documents read within an allowance."""
        if wrong := unknown_names(options, RequestOptions.__annotations__, "A request", _INSTEAD):
            raise InvalidRequestError(wrong)
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        base = prompt if isinstance(prompt, Request) else None
        changes: dict[str, Any] = dict(base) if base else {}
        own = cls.model_fields.keys() & RequestOptions.__annotations__.keys() - _READ
        changes |= {name: given[name] for name in own if name in given}
        try:
            if not isinstance(prompt, Request):
                check_numbers(messages=prompt)
            check_numbers(tools=given.get("tools"), stop=given.get("stop"))
            messages = prompt.messages if isinstance(prompt, Request) else messages_of(prompt)
            system = given.get("system")
            if system is not None and not isinstance(system, str):
                raise InvalidRequestError(f"system={safe_repr(system)} cannot be used: it takes a string.")
            changes["messages"] = (Message(role="system", content=system), *messages) if system else messages
            budget = given.get("budget", Budget())
            if not isinstance(budget, Budget):
                raise InvalidRequestError(
                    f"budget={safe_repr(budget)} cannot be used: it takes a Budget, such as Budget(max_calls=10)."
                )
            if documents := given.get("documents"):
                changes["documents"], changes["unread"] = documents_of(documents, allowance, changes.get("deadline_s"))
            changes |= _passed_on(given, changes.get("extra") or {})
            if "strategy" in given:
                changes |= _strategy(given["strategy"])
            sampling = {name: value for name, value in given.items() if name in GenerationOptions.model_fields}
            before = base.options.model_dump() if base else {}
            if base:
                before["response_format"] = base.options.given_format
            changes["options"] = GenerationOptions.model_validate(before | sampling)
            request = cls.model_validate(changes)
            if (ends_s := request.budget.deadline_s) is not None:
                ends_s = min(ends_s, request.deadline_s or ends_s)
                request = request.model_copy(update={"deadline_s": ends_s})
        except ValidationError as error:
            raise InvalidRequestError(explained(error)) from None
        _check(request)
        if isinstance(prompt, str) and not prompt.strip():  # turns can be empty: some models continue from them
            raise InvalidRequestError(f"The prompt is empty ({prompt!r}). Ask a question.")
        return request

    @property
    def question(self) -> str:
        """The last user turn: what is being asked now. Empty without a user turn."""
        return next((message.content for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def system(self) -> str:
        """All system messages, joined."""
        return "\n\n".join(message.content for message in self.messages if message.role == "system")

    @property
    def history(self) -> tuple[Message, ...]:
        """The turns before the question, without system messages."""
        turns = [message for message in self.messages if message.role != "system"]
        user_turns = [index for index, message in enumerate(turns) if message.role == "user"]
        return tuple(turns[: user_turns[-1]] if user_turns else turns)

    @property
    def continues(self) -> bool:
        """Whether the conversation ends with an assistant turn, which the answer continues."""
        return self.messages[-1].role == "assistant"

    @property
    def whole_reason(self) -> str | None:
        """Why the request goes to the model unchanged, as half a sentence; ``None`` if it can be written in parts."""
        return next(_what_is_whole(self), None)

    @property
    def reproducible(self) -> bool:
        """Whether the same request should give the same text: with a seed, or at temperature 0."""
        return self.options.seed is not None or self.options.temperature == 0

    @property
    def accompanying(self) -> Mapping[str, Any]:
        """The fields of `extra` sent with every call of an answer that is written in parts."""
        return {name: value for name, value in self.extra.items() if name in ACCOMPANYING}


def check_extra(extra: Mapping[str, Any]) -> None:
    """Raise `InvalidRequestError` for body fields that callers cannot set in ``extra``."""
    if own := [name for name in extra if name in _NOT_EXTRA]:
        raise InvalidRequestError(f"extra= holds {safe_repr(own[0])}, which {_NOT_EXTRA[own[0]]}.")


def _strategy(strategy: Any) -> dict[str, Any]:
    """Return the fields for a strategy name or a strategy object."""
    if isinstance(strategy, str):
        return {"strategy": strategy, "own_strategy": None}
    name = getattr(strategy, "name", None)
    if not isinstance(name, str) or not callable(getattr(strategy, "run", None)) or isinstance(strategy, type):
        raise InvalidRequestError(
            f"strategy={safe_repr(strategy)} cannot be used: it is neither a name nor a strategy, an object with name, "
            "offer() and run()."
        )
    return {"strategy": name, "own_strategy": strategy}


def _check(request: Request) -> None:
    whole = request.strategy in WHOLE or getattr(request.own_strategy, "writes_whole", False)
    if request.options.response_format is not None and not whole:
        raise InvalidRequestError(
            f"response_format holds an answer as a whole, and strategy={request.strategy!r} writes it in parts. "
            f"Use one of {', '.join(WHOLE)}, or leave it out."
        )
    if not request.messages:
        raise InvalidRequestError("The request has no messages. Add one with the question.")
    if request.functions and request.n > 1:
        raise InvalidRequestError(
            f"n={request.n} cannot be used with tools= that are functions: which of the answers would go on with their "
            "results? Leave n out, or give the tools in OpenAI's form."
        )


def _passed_on(given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields for tools, tool choice, and the body fields that are passed through."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {**before}
    if "extra" in given:
        if not isinstance(given["extra"], Mapping):
            raise InvalidRequestError(f"extra={safe_repr(given['extra'])} cannot be used: it is a mapping of fields.")
        extra |= given["extra"]
        check_extra(given["extra"])
    if "chat_template_kwargs" in given:
        extra["chat_template_kwargs"] = given["chat_template_kwargs"]
    _check_template_arguments(extra.get("chat_template_kwargs"))
    if "tools" in given:
        if not isinstance(given["tools"], Sequence) or isinstance(given["tools"], str):
            raise InvalidRequestError(f"tools={safe_repr(given['tools'])} cannot be used: it is a list of tools.")
        fields["tools"], fields["functions"] = _tools(given["tools"])
    if "tool_choice" in given:
        fields["tool_choice"], other_options = read_tool_choice(given["tool_choice"])
        extra |= other_options
    return {**fields, "extra": mended(extra)}


def _tools(given: Sequence[Any]) -> tuple[tuple[Mapping[str, Any], ...], tuple[Tool, ...]]:
    """Return the tools in OpenAI's form, and those that the library calls."""
    own = [tool_of(each) for each in given]
    tools = tuple(read_tool(each) if tool is None else tool.spec for each, tool in zip(given, own, strict=True))
    names = Counter(filter(None, map(name_of_tool, tools)))
    if twice := next((name for name, times in names.items() if times > 1), None):
        raise InvalidRequestError(
            f"tools= holds two tools called {safe_repr(twice)}, so a call would be ambiguous. Leave one "
            "out, or give it another name; that of a function is given by Tool(function, name='...')."
        )
    return tools, tuple(tool for tool in own if tool is not None)


def _check_template_arguments(given: Any) -> None:
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise InvalidRequestError(
            f"chat_template_kwargs={safe_repr(given)} cannot be used: it is a mapping from names to values, such as "
            '{"enable_thinking": true}.'
        )


def _what_is_whole(request: Request) -> Iterator[str]:
    if request.tools:
        yield "tools come with the request, and the model decides when to call them"
    if any(message.role == "tool" or message.tool_calls for message in request.messages):
        yield "the conversation holds tool calls and their results"
    if media := [kind for message in request.messages for kind in message.media]:
        yield f"the conversation holds {_CALLED.get(media[0], f'a part of the type {safe_repr(media[0])}')}"
    if request.n > 1:
        yield f"{request.n} answers are asked for, each as a whole"
    if request.continues:
        yield "the last turn is the assistant's, and the answer goes on with it"
    if steering := [name for name in request.extra if name not in ACCOMPANYING]:
        yield f"{safe_repr(steering[0])} steers the answer as a whole"
    given = request.extra.get("chat_template_kwargs") or {}
    if thinking := [name for name in _THINKING if given.get(name)]:
        yield f"{thinking[0]} lets the model think before it answers"
    if not any(message.role == "user" for message in request.messages):
        yield "no turn of the conversation is the user's"
    elif not request.question.strip():
        yield "the user's last turn is empty"


__all__ = [
    "Document",
    "GenerationOptions",
    "Message",
    "Preference",
    "PromptLike",
    "Request",
    "RequestOptions",
    "Role",
]
