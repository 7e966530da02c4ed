"""One side of a comparison, and its answer to one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.client.async_client import AsyncStretto
from stretto.comparing.comparison_questions import Question
from stretto.values.answer import Answer
from stretto.values.errors import (
    AuthenticationError,
    MissingDependencyError,
    ModelNotFoundError,
    SettingsError,
    StrettoError,
    UnknownStrategyError,
)

HOPELESS = (AuthenticationError, MissingDependencyError, ModelNotFoundError, SettingsError, UnknownStrategyError)
"""Errors that would affect every question."""


@dataclass(frozen=True)
class Side:
    """A way of answering.

    Attributes:
        name: its name in tables and on the page.
        client: the client that answers, with this side's model and settings.
        options: arguments of `AsyncStretto.ask`, such as ``strategy``.
    """

    name: str
    client: AsyncStretto
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> str:
        """Its model and options, to distinguish comparisons."""
        options = ", ".join(f"{name}={value!r}" for name, value in sorted(self.options.items()))
        return f"{self.client.backends['main'].name}: {options}"


class Sample(BaseModel):
    """The answer of one side to one question.

    Attributes:
        text: the text.
        strategy: how it was actually written.
        reason: why.
        finish_reason: how it ended; "failed" if there is no answer.
        warnings: the warnings of the answer, or the error.
        total_s: seconds to its end.
        first_text_s: seconds to its first text.
        prompt_tokens: prompt tokens read.
        completion_tokens: tokens generated, including discarded ones.
        calls: number of calls to the model.
        cost_usd: cost in US dollars; ``None`` if the price is unknown.
        cut_parts: number of parts that failed or reached their limit.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    text: str
    strategy: str
    reason: str = ""
    finish_reason: str = "stop"
    warnings: tuple[str, ...] = ()
    total_s: float = Field(default=0.0, ge=0)
    first_text_s: float | None = Field(default=None, ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    cut_parts: int = Field(default=0, ge=0)

    @property
    def tokens(self) -> int:
        """The tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.finish_reason == "failed"

    @classmethod
    def of(cls, answer: Answer) -> Sample:
        """Create a sample from an answer."""
        return cls(
            text=answer.text,
            strategy=answer.strategy or answer.route.strategy,
            reason=answer.route.reason,
            finish_reason=answer.finish_reason,
            warnings=tuple(warning.message for warning in answer.warnings),
            total_s=answer.timeline.total_s,
            first_text_s=answer.timeline.first_text_s,
            prompt_tokens=answer.usage.prompt_tokens,
            completion_tokens=answer.usage.completion_tokens,
            calls=answer.usage.calls,
            cost_usd=None if answer.cost is None else answer.cost.usd,
            cut_parts=sum(each.status == "failed" or each.finish_reason == "length" for each in answer.branches),
        )


async def sample(side: Side, question: Question, seed: int | None) -> Sample:
    """Ask one side. A failed question gives a failed sample; raises errors that would affect every question."""
    options = dict(side.options)
    if question.documents:
        options["documents"] = question.documents
    if seed is not None:
        options["seed"] = seed
    try:
        with asked_for(UNKNOWN):  # otherwise a local model would draft this answer from the other side's
            return Sample.of(await side.client.ask(question.question, **options))
    except HOPELESS:
        raise
    except StrettoError as error:
        return Sample(text="", strategy="", finish_reason="failed", warnings=(str(error),))
