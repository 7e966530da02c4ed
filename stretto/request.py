"""What a caller asks for: messages, documents, options, preference, budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stretto.document import Document
from stretto.errors import InvalidRequestError

Role = Literal["system", "user", "assistant"]
Preference = Literal["fastest", "balanced", "careful"]


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: str


class GenerationOptions(BaseModel):
    """How to sample and when to stop. ``None`` leaves the choice to the backend.

    ``deadline_s`` bounds the whole answer in seconds, retries and waits included. ``decoding`` names a decoding
    method of a local backend; without one, the router chooses. Backends behind an API take none.
    ``response_format`` holds the answer to a JSON schema (a dict), to the fields of a pydantic model class, all of
    which are written, or, on a local model, to a regular expression (a string); such an answer comes in one piece.
    ``logprobs`` asks for the log-probability of each token of the answer, and of so many of the most probable tokens
    beside it; local models have them, and those behind OpenAI's API that do not reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    stop: tuple[str, ...] = ()
    seed: int | None = None
    deadline_s: float | None = Field(default=None, gt=0)
    decoding: str | None = None
    response_format: dict[str, Any] | str | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)

    @field_validator("response_format", mode="before")
    @classmethod
    def _schema_of_a_model(cls, value: Any) -> Any:
        return _closed(value.model_json_schema()) if isinstance(value, type) and issubclass(value, BaseModel) else value

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Budget(BaseModel):
    """The most an answer may cost: calls to a backend, and prompt plus completion tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens_total: int | None = Field(default=None, ge=1)


class Request(BaseModel):
    """One question with everything that belongs to it. Frozen; made by ``Request.of``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Message, ...]
    documents: tuple[Document, ...] = ()
    options: GenerationOptions = GenerationOptions()
    preference: Preference = "balanced"
    budget: Budget = Budget()
    strategy: str = "auto"
    race: bool = False

    @classmethod
    def of(
        cls,
        prompt: str | Message | Request | Sequence[Message | Mapping[str, Any] | str],
        *,
        system: str | None = None,
        documents: Sequence[Document | str] = (),
        budget: Budget | Mapping[str, Any] | None = None,
        preference: str | None = None,
        strategy: str | None = None,
        race: bool | None = None,
        **options: Any,
    ) -> Request:
        """Make a request from what a caller has at hand.

        ``prompt`` is a string (one user message), a message, a list of messages (mappings with
        ``role`` and ``content`` are read too), or a request to change. ``options`` are the fields
        of `GenerationOptions`. Raises `InvalidRequestError`.
        """
        base = prompt if isinstance(prompt, Request) else None
        changes: dict[str, Any] = dict(base) if base else {}
        named = {"preference": preference, "strategy": strategy, "race": race, "budget": budget}
        changes |= {name: value for name, value in named.items() if value is not None}
        try:
            messages = prompt.messages if isinstance(prompt, Request) else _messages(prompt)
            changes["messages"] = (Message(role="system", content=system), *messages) if system else messages
            if documents:
                changes["documents"] = tuple(Document(text=d) if isinstance(d, str) else d for d in documents)
            given = {name: value for name, value in options.items() if value is not None}
            changes["options"] = GenerationOptions(**((base.options.model_dump() if base else {}) | given))
            request = cls(**changes)
        except ValidationError as error:
            raise InvalidRequestError(_explain(error)) from None
        _check(request)
        return request

    @property
    def question(self) -> str:
        """The last user turn: what is being asked now."""
        return next(message.content for message in reversed(self.messages) if message.role == "user")

    @property
    def system(self) -> str:
        """All system messages, joined."""
        return "\n\n".join(message.content for message in self.messages if message.role == "system")

    @property
    def history(self) -> tuple[Message, ...]:
        """The turns before the question, system messages left out."""
        turns = [message for message in self.messages if message.role != "system"]
        last = max(index for index, message in enumerate(turns) if message.role == "user")
        return tuple(turns[:last])


def _closed(schema: Any) -> Any:
    """Let objects have exactly the fields that are declared: a schema that allows more gets more, and without end."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: _closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        schema = {"additionalProperties": False} | schema | {"required": list(schema["properties"])}
    return schema


def _messages(prompt: str | Message | Sequence[Message | Mapping[str, Any] | str]) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (Message(role="user", content=prompt),)
    if isinstance(prompt, Message):
        return (prompt,)
    if not isinstance(prompt, Sequence):
        raise InvalidRequestError(
            f"A prompt is a string or a list of messages, not {type(prompt).__name__}. Pass the text of the question."
        )
    return tuple(
        turn
        if isinstance(turn, Message)
        else Message(role="user", content=turn)
        if isinstance(turn, str)
        else Message(**turn)
        for turn in prompt
    )


def _check(request: Request) -> None:
    if request.options.response_format is not None and request.strategy not in ("auto", "direct"):
        raise InvalidRequestError(
            f"response_format holds an answer as a whole, and strategy={request.strategy!r} writes it in parts. "
            "Use strategy='direct', or leave it out."
        )
    spoken = [message for message in request.messages if message.role != "system"]
    if not spoken or not any(message.role == "user" for message in spoken):
        raise InvalidRequestError("The request has no user message. Add one with the question.")
    if spoken[-1].role != "user":
        raise InvalidRequestError(
            "The last message is from the assistant. End with a user message: "
            "continuing a started answer is not supported."
        )
    if not request.question.strip():
        raise InvalidRequestError(f"The prompt is empty ({request.question!r}). Ask a question.")


def _explain(error: ValidationError) -> str:
    """One line for a person out of the first thing pydantic found."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "request"
    shown = repr(first.get("input"))
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{name}={shown} cannot be used: {first['msg'][0].lower()}{first['msg'][1:]}."
