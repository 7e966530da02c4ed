"""How a model samples and when it stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import PydanticCustomError

from stretto.foundation.json_schema import read_format, strict_of
from stretto.foundation.surrogates import fix_surrogates
from stretto.foundation.validation import CheckedModel


def not_bool(value: Any) -> Any:
    """Reject True and False: they are numbers in Python, but never meant as numbers here."""
    if isinstance(value, bool):
        raise PydanticCustomError("no_number", "Input should be a number")
    return value


@dataclass(frozen=True)
class _Given:
    """The form in which a schema was given. All instances are equal, because only the schema counts."""

    model: type[BaseModel] | None = field(default=None, compare=False)
    strict: bool | None = field(default=None, compare=False)


class GenerationOptions(CheckedModel):
    """How to sample and when to stop. ``None`` leaves the choice to the backend.

    Attributes:
        max_tokens: the most tokens to generate.
        temperature: from 0 (always the most probable token) to 2.
        top_p: sample from the most probable tokens that together have this probability.
        stop: texts that end the answer, without being part of it.
        seed: seed for reproducible sampling, where the backend supports it.
        decoding: a decoding method of a local backend; by default, the router chooses. Remote backends accept none.
        adapter: the name of an adapter that a local backend has loaded; without one, the base model.
        response_format: a JSON schema (a dict, also in OpenAI's forms around one), a pydantic model class, of which all
            fields are written, or, on a local model, a regular expression (a string). The answer comes in one piece and
            is validated; if it does not fit, it is requested once more. ``Answer.parsed`` is its value.
        logprobs: report the log-probability of each token, and of this many of the most probable tokens in its place.
            Supported by local models, and by non-reasoning models behind OpenAI's API.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    stop: tuple[str, ...] = ()
    seed: int | None = None
    decoding: str | None = None
    adapter: str | None = None
    response_format: dict[str, Any] | str | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    _given: _Given = PrivateAttr(default=_Given())

    @property
    def response_model(self) -> type[BaseModel] | None:
        """The pydantic model that was given as ``response_format``; ``None`` for another format, and after JSON."""
        return self._given.model

    @property
    def response_strict(self) -> bool | None:
        """The strict mode in OpenAI's form of ``response_format``; ``None`` if it is not set, and after JSON."""
        return self._given.strict

    @property
    def given_format(self) -> Any:
        """The ``response_format`` in a form that can be passed again, with everything known about it."""
        if self._given.model is not None:
            return self._given.model
        if self._given.strict is None:
            return self.response_format
        return {"type": "json_schema", "json_schema": {"schema": self.response_format, "strict": self._given.strict}}

    @model_validator(mode="wrap")
    @classmethod
    def _keeps_the_model(cls, values: Any, handler: ModelWrapValidatorHandler[GenerationOptions]) -> GenerationOptions:
        options = handler(values)
        given = values.get("response_format") if isinstance(values, dict) else None
        if isinstance(given, type) and issubclass(given, BaseModel):
            options._given = _Given(given)
        elif isinstance(given, Mapping):
            options._given = _Given(strict=strict_of(given))
        return options

    _a_number = field_validator("max_tokens", "temperature", "top_p", "seed", mode="before")(not_bool)
    _checked_format = field_validator("response_format", mode="before")(read_format)

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("stop")
    @classmethod
    def _no_empty_text(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise PydanticCustomError("empty_stop", "An empty text would end every answer at once")
        return tuple(map(fix_surrogates, value))
