"""What a caller gets: the merged text, its branches, what it cost and what ran when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.agreement import Agreement
from stretto.citation import Citation, PassageRecord
from stretto.foundation.notebook_forms import ShownInNotebooks
from stretto.route import Route
from stretto.token_records import DecodingStats, TokenLogprob
from stretto.tool_calls import ToolCall, turn_of

FinishReason = Literal[
    "stop",
    "length",
    "tool_calls",
    "refusal",
    "content_filter",
    "deadline",
    "budget",
    "error",
    "incomplete",  # most of the documents could not be read
    "nothing_found",  # the documents were read and hold nothing on the question
]
"""How an answer, or a part of it, ended."""

REFUSALS: frozenset[str] = frozenset({"refusal", "content_filter"})  # by the model, or by its server


class Usage(BaseModel):
    """Tokens and calls. Usages of several branches are added up with ``+``.

    Attributes:
        prompt_tokens: read by the model.
        completion_tokens: generated, reasoning included.
        cached_tokens: prompt tokens that a provider read from its cache.
        cache_write_tokens: prompt tokens that were written to a provider's cache; some bill them higher.
        reasoning_tokens: generated while the model was thinking; not shown.
        discarded_tokens: generated, but not part of the answer: losers of races and hedges, and restarted branches.
        calls: sent, repetitions included.
        retries: calls sent again after a failure.
        hedges: calls sent a second time because the first one was late.
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
        return Usage(
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


class Cost(BaseModel):
    """What an answer cost in money, by its tokens and the prices of its models. ``str(cost)`` is the amount.

    Attributes:
        usd: US dollars, for everything that was generated and read, discarded tokens included.
        as_of: the day of the prices; ``None`` where no price was needed, or where the source names a release instead.
        source: where the prices come from.
    """

    model_config = ConfigDict(frozen=True)

    usd: float
    as_of: date | None = None
    source: str = ""

    def __add__(self, other: Cost) -> Cost:
        days = [each.as_of for each in (self, other) if each.as_of is not None]
        sources = dict.fromkeys(each.source for each in (self, other) if each.source)
        return Cost(usd=self.usd + other.usd, as_of=min(days, default=None), source="; ".join(sources))

    def __str__(self) -> str:
        digits = 2 if self.usd == 0 or self.usd >= 1 else 4 if self.usd >= 0.01 else 6
        return f"${self.usd:,.{digits}f}"


class Span(BaseModel):
    """When one branch waited, spoke and ended, in seconds since the request arrived. ``None``: it never came to it.

    A call of a local model also has the times of its way to the first text. Those of the last call count, where a
    branch made several.

    Attributes:
        needed_s: what it was waiting for, its outline line or its parents, was there.
        started_s: its call was sent.
        first_s: its first text arrived.
        ended_s: it ended.
        loaded_s: the local model was loaded.
        prepared_s: the prompt was made into tokens, and a grammar or an adapter was ready.
        submitted_s: the call was in the engine's queue.
        admitted_s: it had a slot, and the engine began to read its prompt.
        prompt_read_s: the prompt was read.
        first_token_s: the first token was chosen.
    """

    model_config = ConfigDict(frozen=True)

    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    ended_s: float | None = None
    loaded_s: float | None = None
    prepared_s: float | None = None
    submitted_s: float | None = None
    admitted_s: float | None = None
    prompt_read_s: float | None = None
    first_token_s: float | None = None


class Writer(BaseModel):
    """What one model wrote of a branch that several models were asked for.

    Attributes:
        model: the model name, ``provider:model``.
        start: where its text begins in that of the branch, in characters.
        usage: what it cost.
        error: why it did not finish; ``None`` for the model that did.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    start: int = 0
    usage: Usage = Usage()
    error: str | None = None


class Branch(BaseModel):
    """One generation: the direct answer, the outline, one point, one item.

    Attributes:
        id: unique within the answer, for instance ``point-2``.
        kind: what it wrote.
        title: of a point or an item.
        text: what it wrote.
        status: whether it was finished.
        finish_reason: how it ended.
        error: why a failed branch failed.
        discarded: it failed because it was cancelled: the answer did not need it any more, or was better without it.
        span: when it waited, spoke and ended.
        usage: what it cost.
        model: the model that wrote it; with fallbacks, the last one that was asked.
        writers: every model that was asked, where a fallback took over; otherwise empty.
        decoding: how a local model found its tokens; ``None`` from other backends, and for a call that was cut short.
        logprobs: of its tokens, if they were asked for.
        tool_calls: the calls that it asks for.
        refused: its text is a refusal in the model's own words; known only of a branch that is an answer by itself.
        stop_text: the stop text that ended it, where that is known.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: str
    title: str = ""
    text: str = ""
    status: Literal["finished", "failed"] = "finished"
    finish_reason: FinishReason = "stop"
    error: str | None = None
    discarded: bool = False
    span: Span = Span(needed_s=0.0)
    usage: Usage = Usage()
    model: str = ""
    writers: tuple[Writer, ...] = ()
    decoding: DecodingStats | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    refused: bool = False
    stop_text: str | None = None


class Choice(BaseModel):
    """One of several answers to one request.

    Attributes:
        text: what it says.
        tool_calls: the calls that it asks for.
        finish_reason: how it ended.
        logprobs: of its tokens, if they were asked for.
        refused: it is a refusal in the model's own words.
    """

    model_config = ConfigDict(frozen=True)

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    logprobs: tuple[TokenLogprob, ...] = ()
    refused: bool = False


class Timeline(BaseModel):
    """What ran when, in seconds since the request arrived.

    Attributes:
        first_text_s: the first text of the answer was there; ``None`` where there was none.
        total_s: the answer was complete.
        critical_path_s: the longest chain of branches that had to wait for each other.
    """

    model_config = ConfigDict(frozen=True)

    first_text_s: float | None = None
    total_s: float = 0.0
    critical_path_s: float = 0.0


class Answer(ShownInNotebooks, BaseModel):
    """The whole answer. ``str(answer)`` is its text.

    Attributes:
        text: the merged text of all branches.
        route: how the request was to be generated, and why.
        strategy: how it was written in the end; not ``route.strategy`` where that could not be carried out.
        parsed: the value of an answer held to a ``response_format``: an instance of the pydantic model, what the JSON
            holds, or the text that matches the regular expression; ``None`` where the answer does not fit. It is left
            out of JSON, which holds the text.
        branches: all generations, in the order in which they were started.
        usage: tokens and calls of all branches together.
        cost: what they cost; ``None`` where the price of the model is unknown.
        decoding: how a local model found the tokens of all branches together.
        logprobs: of the branches in the answer, one after the other, if they were asked for. Labels and titles that no
            branch wrote have none, and what was trimmed from a branch still has its own.
        timeline: when the first text and the whole answer were there.
        citations: the places in documents that the answer names, in its order.
        passages: what reading each passage of long documents gave.
        warnings: sentences about what is missing, was left out, or was done in another way.
        finish_reason: how the worst part of the answer ended; of documents also ``incomplete``, when most of them
            could not be read, and ``nothing_found``, when they hold nothing on the question.
        tool_calls: the calls that the model asks its caller to make; the answer goes on once it is given their results.
        tool_turns: the turns of an answer for which the caller's functions were called: calls, results and what was
            said between them; see `turns`.
        thoughts: what the model thought, as parts of its turn, where its server tells.
        extra: other fields of the response of the model's server, in an answer of one generation: ``model``,
            ``system_fingerprint``, ``service_tier``, ``annotations``.
        choices: all answers, where several were asked for; the first is the one that ``text`` holds.
        agreement: how far the samples agree that the answer was chosen from (strategy ``consensus``).
    """

    model_config = ConfigDict(frozen=True)

    text: str
    route: Route
    strategy: str = ""
    parsed: Any = Field(default=None, exclude=True, repr=False)
    branches: tuple[Branch, ...] = ()
    usage: Usage = Usage()
    cost: Cost | None = None
    decoding: DecodingStats | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    timeline: Timeline = Timeline()
    warnings: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    passages: tuple[PassageRecord, ...] = ()
    finish_reason: FinishReason = Field(default="stop")
    tool_calls: tuple[ToolCall, ...] = ()
    tool_turns: tuple[Mapping[str, Any], ...] = ()
    thoughts: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = Field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    agreement: Agreement | None = None

    @property
    def turn(self) -> dict[str, Any]:
        """The answer as a turn of the conversation, for the next request: text and tool calls with their thoughts."""
        return turn_of(self.text, self.tool_calls, self.thoughts if self.tool_calls else ())

    @property
    def turns(self) -> tuple[Mapping[str, Any], ...]:
        """All turns of the answer for the next request, where functions were called; else its one `turn`."""
        return self.tool_turns or (self.turn,)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        start = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return (
            f"<Answer {start!r}: {len(self.text)} characters in {self.timeline.total_s:.2f} s, {self.finish_reason}, "
            f"{self.route.strategy} on {self.route.backend or self.route.role}>"
        )
