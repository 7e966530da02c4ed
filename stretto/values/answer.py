"""What a caller gets: the merged text, its branches, what it cost and what ran when."""

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
        votes: the number of votes by what was voted for, most votes first. Numbers, choices, JSON and short phrases
            are written in one way each; a longer text counts by itself.
        share: of the votes that were counted, the part that the answer got; 0 where the texts were compared instead.
        decided_by: "unchangeable" (no vote could change the outcome), "certain" (the leader was probable enough to
            stay in front), "all_votes" (every sample was counted), "similarity" (the text that is most like the
            others), "judge" (a model chose), "only_one" (no more than one sample had a vote).
        samples: that were wanted.
        begun: whose call was sent.
        finished: that were written to their end.
        failed: that broke off, were cut or refused, or do not fit the format; they have no vote.
        cancelled: that were not needed any more, whether begun or not.
        weak: that were ended in mid-stream, because the model was less sure of them than of any finished sample.
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
    "nothing_found",  # nothing on the question was found in the documents
]
"""How an answer, or a part of it, ended."""

CutBy = Literal["loop", "leak", "heading"]
"""Which screen cut a part of an answer."""

REFUSALS: frozenset[str] = frozenset({"refusal", "content_filter"})  # by the model, or by its server


class Usage(BaseModel):
    """Tokens and calls. Usages of several branches are added up with ``+``.

    Attributes:
        prompt_tokens: read by the model.
        completion_tokens: generated, reasoning included.
        cached_tokens: prompt tokens that a provider read from its cache.
        cache_write_tokens: prompt tokens that were written to a provider's cache; some bill them higher.
        reasoning_tokens: generated while the model was thinking; not shown.
        discarded_tokens: generated, or billed so, but not part of the answer: losers of races and hedges, restarted
            branches, and what of a prediction did not come back.
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
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})

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
    """One generation: the direct answer, the plan, one section, one item.

    Attributes:
        id: unique within the answer, for instance ``section-2``.
        kind: what it wrote.
        title: of what it wrote, where that is no section: an item, a passage, a tool.
        heading: of a section, and of a point of an outline, which is a section as well.
        form: of a section, in the words of its plan, such as ``table`` or ``numbered steps``; empty where no plan
            names one.
        index: of a section, from 1; ``None`` for all else.
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
        cut_by: which screen cut it, or discarded it: it repeated itself (``loop``), repeated words of the library's
            prompts (``leak``), or went on with another part (``heading``).
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


SECTION_FIELDS = {"id", "index", "heading", "form", "status", "finish_reason", "error", "cut_by"}
"""What the fields beside an answer's text tell of each of its sections."""


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
        warnings: what is missing, was left out, or was done in another way: sentences, each with a code and a part.
        finish_reason: how the worst part of the answer ended; of documents also ``incomplete``, when most of them
            could not be read, and ``nothing_found``, when nothing was found in them.
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
        """All turns of the answer for the next request, where functions were called; else its one `turn`."""
        return self.tool_turns or (self.turn,)

    @property
    def sections(self) -> tuple[Branch, ...]:
        """The branches that wrote the answer's sections, in reading order; none where it is no answer in sections."""
        return tuple(branch for branch in self.branches if branch.kind == "section" and not branch.discarded)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        start = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return (
            f"<Answer {start!r}: {len(self.text)} characters in {self.timeline.total_s:.2f} s, {self.finish_reason}, "
            f"{self.route.strategy} on {self.route.backend or self.route.role}>"
        )
