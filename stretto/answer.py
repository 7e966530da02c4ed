"""What a caller gets: the merged text, its branches, what it cost and what ran when."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.route import Route

FinishReason = Literal["stop", "length", "refusal", "deadline", "budget", "error"]
BranchKind = Literal["direct", "outline", "point", "item", "plan"]


class Usage(BaseModel):
    """Tokens and calls; added up over branches with ``+``.

    ``cached_tokens`` are prompt tokens read from a provider's cache, ``cache_write_tokens`` those
    written to one, which some bill higher. ``completion_tokens`` is everything generated, reasoning
    included; ``discarded_tokens`` is the part of it that did not reach the answer (losers of races and
    hedges, restarted branches).
    """

    model_config = ConfigDict(frozen=True)

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    discarded_tokens: int = 0
    calls: int = 0
    retries: int = 0
    hedges: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage.model_construct(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            discarded_tokens=self.discarded_tokens + other.discarded_tokens,
            calls=self.calls + other.calls,
            retries=self.retries + other.retries,
            hedges=self.hedges + other.hedges,
        )

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


class Span(BaseModel):
    """When one branch waited, spoke and ended: seconds since the request arrived.

    ``needed_s``: when what it was waiting for (its outline line, its parents) was there;
    ``started_s``: when its call was sent; ``first_s``: its first text. ``None``: it never came to it.
    """

    model_config = ConfigDict(frozen=True)

    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    ended_s: float | None = None


class Branch(BaseModel):
    """One generation: the straight answer, the outline, one point, one item.

    ``text`` is what this branch wrote; ``error`` says why a failed one failed.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: BranchKind
    title: str = ""
    text: str = ""
    status: Literal["finished", "failed"] = "finished"
    finish_reason: FinishReason = "stop"
    error: str | None = None
    span: Span = Span(needed_s=0.0)
    usage: Usage = Usage()


class Timeline(BaseModel):
    """What ran when, in seconds since the request arrived; for plots and for ``--trace``."""

    model_config = ConfigDict(frozen=True)

    first_text_s: float | None = None
    total_s: float = 0.0
    critical_path_s: float = 0.0


class Answer(BaseModel):
    """The whole answer. ``str(answer)`` is its text."""

    model_config = ConfigDict(frozen=True)

    text: str
    route: Route
    branches: tuple[Branch, ...] = ()
    usage: Usage = Usage()
    timeline: Timeline = Timeline()
    warnings: tuple[str, ...] = ()
    finish_reason: FinishReason = Field(default="stop")

    def __str__(self) -> str:
        return self.text
