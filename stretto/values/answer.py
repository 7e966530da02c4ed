"""The answer that a caller gets: the merged text, its branches, its cost and its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.foundation.notebook_forms import ShownInNotebooks
from stretto.values.answer_warning import AnswerWarning
from stretto.values.citation import Citation, PassageRecord
from stretto.values.route import Route
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCall, turn_of

Decided = Literal["unchangeable", "certain", "all_votes", "similarity", "judge", "only_one"]


class Agreement(BaseModel):
    """How far the samples of an answer agree (strategy ``consensus``).

    Attributes:
        votes: the number of votes for each candidate, most votes first. Numbers, choices, JSON and short phrases are
            normalised before they are counted; a longer text counts by itself.
        share: the answer's share of the counted votes; 0 where the texts were compared instead.
        decided_by: "unchangeable" (no vote could change the outcome), "certain" (the leader was likely enough to stay
            ahead), "all_votes" (every sample was counted), "similarity" (the text most similar to the others was
            taken), "judge" (a model chose), "only_one" (no more than one sample had a vote).
        samples: the number requested.
        begun: the number whose call was sent.
        finished: the number that were completed.
        failed: the number that broke off, were cut or refused, or do not fit the format; they have no vote.
        cancelled: the number that were no longer needed, whether begun or not.
        weak: the number that were stopped mid-stream, because the model was less sure of them than of any finished
            sample.
    """

    model_config = ConfigDict(frozen=True)

    votes: Mapping[str, int] = Field(default_factory=dict)
    share: float = 0.0
    decided_by: Decided = "all_votes"
    samples: int = 0
    begun: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    weak: int = 0


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
    "nothing_found",  # nothing relevant to the question was found in the documents
]
"""How an answer, or a part of it, ended."""

CutBy = Literal["loop", "leak", "heading"]
"""Which check cut a part of an answer."""

_LIMITS = frozenset({"length", "deadline", "budget", "content_filter"})
REFUSALS: frozenset[str] = frozenset({"refusal", "content_filter"})  # by the model, or by its server


class Usage(BaseModel):
    """Token and call counts. ``+`` adds up the usages of multiple branches.

    Attributes:
        prompt_tokens: tokens read by the model.
        completion_tokens: tokens generated, including reasoning.
        cached_tokens: prompt tokens that a provider read from its cache.
        cache_write_tokens: prompt tokens that were written to a provider's cache; some bill them higher.
        reasoning_tokens: reasoning tokens, which are not shown.
        discarded_tokens: tokens generated, or billed as such, but not part of the answer: losers of races and hedges,
            restarted branches, and the rejected part of a prediction.
        calls: calls sent, including retries and hedges.
        retries: calls retried after a failure.
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
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


class Cost(BaseModel):
    """What an answer cost in money, from its tokens and the prices of its models. ``str(cost)`` is the amount.

    Attributes:
        usd: US dollars for all tokens read and generated, including discarded ones.
        as_of: the date of the prices; ``None`` if no price was needed, or if the source names a release instead.
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
    """When one branch waited, wrote and ended, in seconds since the request arrived; ``None`` for what never happened.

    A call to a local model also has the times of the stages before its first text. Where a branch made multiple calls,
    they are those of the last one.

    Attributes:
        needed_s: what it waited for (its outline line or its parents) was available.
        started_s: its call was sent.
        first_s: its first text arrived.
        ended_s: it ended.
        loaded_s: the local model was loaded.
        prepared_s: the prompt was tokenized, and a grammar or an adapter was ready.
        submitted_s: the call was put into the engine's queue.
        admitted_s: it got a slot, and prefill of its prompt began.
        prompt_read_s: prefill was finished.
        first_token_s: the first token was sampled.
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
    """What one model wrote of a branch for which multiple models were asked.

    Attributes:
        model: the model name, ``provider:model``.
        start: where its text begins within the branch's text, in characters.
        usage: what it cost.
        error: why it did not finish; ``None`` for the model that did.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    start: int = 0
    usage: Usage = Usage()
    error: str | None = None


class Branch(BaseModel):
    """One generation: the direct answer, the plan, one section, one item.

    Attributes:
        id: unique name within the answer, for instance ``section-2``.
        kind: what it wrote.
        title: the title of what it wrote, if that is not a section: an item, a passage, a tool.
        heading: the heading of a section; a point of an outline is a section too.
        form: the form of a section, in the words of its plan, such as ``table`` or ``numbered steps``; empty where no
            plan names one.
        index: the number of a section, from 1; ``None`` for everything else.
        text: what it wrote.
        status: whether it finished.
        finish_reason: how it ended.
        error: why a failed branch failed.
        discarded: whether it failed because it was cancelled: the answer no longer needed it, or was better without it.
        span: when it waited, wrote and ended.
        usage: what it cost.
        model: the model that wrote it; with fallbacks, the last one that was asked.
        writers: every model that was asked, where a fallback took over; otherwise empty.
        decoding: how a local model decoded its tokens; ``None`` from other backends, and for a call that was cut short.
        logprobs: log-probabilities of its tokens, if requested.
        tool_calls: the calls that it asks for.
        refused: whether its text is a refusal in the model's own words; known only for a branch that is an answer by
            itself.
        stop_text: the stop text that ended it, if known.
        cut_by: which check cut or discarded it: it repeated itself (``loop``), repeated words of the library's prompts
            (``leak``), or went on to another part (``heading``).
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: str
    title: str = ""
    heading: str = ""
    form: str = ""
    index: int | None = None
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
    cut_by: CutBy | None = None

    @property
    def was_cut(self) -> bool:
        """Whether it ends too early: at a limit, or where a check cut it."""
        return self.status == "finished" and (self.cut_by is not None or self.finish_reason in _LIMITS)


SECTION_FIELDS = {"id", "index", "heading", "form", "status", "finish_reason", "error", "cut_by"}
"""The fields reported for each section alongside an answer's text."""


class Choice(BaseModel):
    """One of multiple answers to a request.

    Attributes:
        text: what it says.
        tool_calls: the calls that it asks for.
        finish_reason: how it ended.
        logprobs: log-probabilities of its tokens, if requested.
        refused: whether it is a refusal in the model's own words.
    """

    model_config = ConfigDict(frozen=True)

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    logprobs: tuple[TokenLogprob, ...] = ()
    refused: bool = False


class Timeline(BaseModel):
    """The times of an answer, in seconds since the request arrived.

    Attributes:
        first_text_s: the first text of the answer was available; ``None`` if there was none.
        total_s: the answer was complete.
        critical_path_s: duration of the longest chain of branches that had to wait for each other.
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
        strategy: how it was actually written; differs from ``route.strategy`` where that could not be carried out.
        parsed: the value of an answer with a ``response_format``: an instance of the pydantic model, the decoded JSON,
            or the text that matches the regular expression; ``None`` where the answer does not fit. It is left out of
            JSON, which contains the text.
        branches: all generations, in the order in which they were started.
        usage: tokens and calls of all branches together.
        cost: what they cost; ``None`` where the price of the model is unknown.
        decoding: how a local model decoded the tokens of all branches together.
        logprobs: log-probabilities of the branches in the answer, one after the other, if requested. Labels and titles
            that no branch wrote have none; text trimmed from a branch still has its own.
        timeline: when the first text and the whole answer were available.
        citations: the places in documents that the answer cites, in its order.
        passages: the result of reading each passage of long documents.
        warnings: what is missing, was left out, or was done differently: sentences, each with a code and a part.
        finish_reason: how the worst part of the answer ended; for documents also ``incomplete`` if most of them could
            not be read, and ``nothing_found`` if nothing was found in them.
        tool_calls: the calls that the model asks its caller to make; the answer continues once it gets their results.
        tool_turns: the turns of an answer for which the caller's functions were called: calls, results and the text
            between them; see `turns`.
        thoughts: the model's reasoning, as parts of its turn, where its server returns it.
        extra: other fields of the response of the model's server, in an answer of one generation: ``model``,
            ``system_fingerprint``, ``service_tier``, ``annotations``.
        choices: all answers, where more than one was requested; the first one is that of ``text``.
        agreement: how far the samples agree from which the answer was chosen (strategy ``consensus``).
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
    warnings: tuple[AnswerWarning, ...] = ()
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
        """All turns of the answer for the next request if functions were called, else just its `turn`."""
        return self.tool_turns or (self.turn,)

    @property
    def sections(self) -> tuple[Branch, ...]:
        """The branches that wrote the answer's sections, in reading order; empty for an answer without sections."""
        return tuple(branch for branch in self.branches if branch.kind == "section" and not branch.discarded)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        start = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return (
            f"<Answer {start!r}: {len(self.text)} characters in {self.timeline.total_s:.2f} s, {self.finish_reason}, "
            f"{self.route.strategy} on {self.route.backend or self.route.role}>"
        )
