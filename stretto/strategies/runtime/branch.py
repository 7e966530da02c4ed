"""A running branch: its text so far, and its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import anyio

from stretto.backends.base import Backend, ModelRequest, Stages
from stretto.foundation.surrogates import Mending, fix_surrogates
from stretto.strategies.runtime.branch_spec import NOT_TEXT, BranchSpec
from stretto.values.answer import Branch, Choice, CutBy, FinishReason, Span, Usage, Writer
from stretto.values.errors import StrettoError
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCallFragment, ToolCallsSoFar

BUFFER = 262_144  # characters that a branch can buffer before its turn; a longer one is cut


@dataclass(eq=False)
class FurtherChoice:
    """A further answer of one call, while it streams."""

    pieces: list[str] = field(default_factory=list)
    calls: ToolCallsSoFar = field(default_factory=ToolCallsSoFar)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason = "error"
    refused: bool = False
    mending: Mending = field(default_factory=Mending)
    logprobs_sent: int = 0

    def new_logprobs(self) -> tuple[TokenLogprob, ...]:
        """Return the log-probabilities that no event has reported yet."""
        return _new_logprobs(self)

    @property
    def choice(self) -> Choice:
        return Choice(
            text="".join(self.pieces),
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
            refused=self.refused,
        )


@dataclass(eq=False)
class BranchWriter:
    """One model's contribution to a branch: where its text begins, what it costs, why it failed.

    Attributes:
        unanswered: the prompt of its last call, until something is received.
        unreported: estimated prompt tokens of a call in flight, whose usage is not known yet.
        left_out: characters of continuations that repeated the text they were to continue.
    """

    backend: Backend
    start: int = 0
    usage: Usage = field(default_factory=Usage)
    error: str | None = None
    unanswered: ModelRequest | None = None
    unreported: int = 0
    left_out: int = 0


@dataclass(eq=False)
class Progress:
    """How far a branch is, in seconds since the request arrived.

    Attributes:
        needed_s: when everything it waits for was ready.
        started_s: when its call was sent.
        first_s: when its first text arrived.
        stages: of its call on a local model.
    """

    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    stages: Stages = field(default_factory=Stages)

    def ended(self, now_s: float) -> Span:
        return Span(
            needed_s=self.needed_s,
            started_s=self.started_s,
            first_s=self.first_s,
            ended_s=now_s,
            **asdict(self.stages),
        )


@dataclass(eq=False)
class ResponseMetadata:
    """What the model of a branch reported besides its text.

    Attributes:
        thoughts: its reasoning.
        extra: other fields of the server's response.
        refused: its text is a refusal in the model's own words.
        stop_text: the stop text that ended it.
        unheld: keywords of its schema that the backend does not enforce.
        decoding: how a local model found its tokens.
    """

    thoughts: tuple[Mapping[str, Any], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    refused: bool = False
    stop_text: str | None = None
    unheld: tuple[str, ...] = ()
    decoding: DecodingStats | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the writing of a branch ended.

    Attributes:
        reason: of its end.
        error: why it failed; ``None`` if it did not.
        cut_by: the check that cut it.
        limit: which limit led to the reason ``length``: ``buffer``, because too much of it waited to be read, or
            ``answer``, because ``max_tokens`` of the whole answer left it fewer tokens than it would have had.
    """

    reason: FinishReason = "stop"
    error: StrettoError | None = None
    cut_by: CutBy | None = None
    limit: Literal["buffer", "answer"] | None = None


Use = Literal["part", "lacking", "carried_out", "replaced", "dropped"]
"""What the answer uses of a branch.

``part``: its text, and its end as that of a part. ``lacking``: a gap, because it ended early. ``carried_out``: a part
that is followed by the results of its tool calls. ``replaced``: its text, while other branches did its work.
``dropped``: nothing, because others did its work.
"""


@dataclass(eq=False)
class RunningBranch:
    """A running or ended branch. It has one reader; any number of tasks can wait for its end.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        spec: what it is to write, and how.
        progress: how far it is.
        writers: the models that were asked, in order.
        logprobs: of its tokens, if they were asked for.
        metadata: what its model reported besides the text.
        outcome: how its writing ended.
        use: what the answer uses of it; the end of one that is ``replaced`` or ``dropped`` does not count, and what was
            ``dropped`` counts as discarded.
        calls: its tool calls.
        others: further answers of the same call, by index.
        branch: what the answer says about it; ``None`` until it has ended.
        logprobs_sent: how many of them events have reported.
        reported: a warning has reported its end.
        handed_over: how many of its tool calls `BranchSpec.on_call` has received.
        withheld: nobody reads it before its end.
        scope: in which its call runs; cancelling it ends the call.
    """

    spec: BranchSpec
    progress: Progress
    writers: list[BranchWriter] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    metadata: ResponseMetadata = field(default_factory=ResponseMetadata)
    outcome: Outcome = Outcome()
    use: Use = "part"
    calls: ToolCallsSoFar = field(default_factory=ToolCallsSoFar)
    others: dict[int, FurtherChoice] = field(default_factory=dict)
    branch: Branch | None = None
    logprobs_sent: int = 0
    reported: bool = False
    handed_over: int = 0
    withheld: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _pieces: list[str] = field(default_factory=list)
    _read: int = 0
    _unread: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
    _more: anyio.Event = field(default_factory=anyio.Event)
    _idle: anyio.Event = field(default_factory=anyio.Event)
    _end: anyio.Event = field(default_factory=anyio.Event)

    @property
    def usage(self) -> Usage:
        """The usage so far, of all its models."""
        return sum((each.usage for each in self.writers), Usage())

    @property
    def text(self) -> str:
        """The text so far, without lines that a `restart_marker` cancelled."""
        text = "".join(self._pieces)
        while self.spec.restart_marker and (at := text.find(self.spec.restart_marker)) >= 0:
            text = text[: text.rfind("\n", 0, at) + 1] + text[at + len(self.spec.restart_marker) :]
        return text

    @property
    def finish_reason(self) -> FinishReason:
        """The reason of its end."""
        return self.outcome.reason

    @property
    def exception(self) -> StrettoError | None:
        """Why it failed."""
        return self.outcome.error

    @property
    def discarded(self) -> bool:
        """Whether it was cancelled because it was not needed."""
        return isinstance(self.exception, DiscardedError)

    @property
    def unused(self) -> bool:
        """Whether it turned out to be unneeded."""
        return self.discarded or self.use == "dropped"

    def wrote(self, writing: BranchWriter) -> bool:
        """Return whether this writer, one of `writers`, has written text."""
        following = self.writers[self.writers.index(writing) + 1 :]
        return (following[0].start if following else len(self.text)) > writing.start

    @property
    def counts(self) -> bool:
        """Whether its end counts as the end of a part of the answer."""
        if self.discarded or self.use in ("replaced", "dropped"):
            return False
        return self.use == "lacking" or self.spec.kind not in NOT_TEXT

    @property
    def in_answer(self) -> bool:
        """Whether the answer contains its text."""
        kept = not (self.unused or self.spec.kind in NOT_TEXT)
        return kept and bool(self.text.strip() or (self.calls and self.use == "part"))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All its answers."""
        first = Choice(
            text=self.text,
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
            refused=self.metadata.refused,
        )
        return first, *(self.others[number].choice for number in sorted(self.others))

    def take_call(self, delta: ToolCallFragment) -> None:
        """Take a fragment of a tool call; if it begins a new call, hand over those before it."""
        before = len(self.calls)
        self.calls.add(delta)
        if len(self.calls) > before:
            self.hand_over()

    def hand_over(self, *, ended: bool = False) -> None:
        """Hand over the complete calls: those before the last, or all if the stream has ``ended``."""
        while self.spec.on_call is not None and self.handed_over < len(self.calls) - (not ended):
            call = self.calls.call(self.handed_over)
            if not (ended or _is_json(call.arguments)):  # its server interleaves the fragments of multiple calls
                return
            self.handed_over += 1
            self.spec.on_call(self.handed_over - 1, call)

    def further(self, number: int) -> FurtherChoice:
        """Return a further answer of the same call."""
        return self.others.setdefault(number, FurtherChoice())

    @property
    def was_read(self) -> bool:
        """Whether a reader has some of its text."""
        return bool(self._read)

    async def caught_up(self) -> None:
        """Wait until the reader has passed on all text and waits for more."""
        if not (self.spec.choice or self.withheld):
            await self._idle.wait()

    def withhold(self) -> None:
        """Mark it as unread until its end: its buffer is unbounded, tool calls do not wait, and it can be restarted."""
        self.withheld = True
        self._idle.set()

    async def begun(self) -> None:
        """Wait for the first text or the end without reading anything."""
        while not self._pieces and self.branch is None:
            self._news = anyio.Event()
            self._idle.set()  # tool calls wait for it
            await self._news.wait()

    async def read(self) -> str:
        """Wait for new text and return it; empty once the branch has ended."""
        while self._read == len(self._pieces) and self.branch is None:
            self._news = anyio.Event()
            self._idle.set()
            await self._news.wait()
        self._idle = anyio.Event()
        text = "".join(self._pieces[self._read :])
        self._read, self._unread = len(self._pieces), 0
        return text

    async def reached(self, characters: int) -> str:
        """Wait for so many characters or the end, and return the first ones, which do not depend on chunking."""
        while len(self.text) < characters and self.branch is None:
            await self._more.wait()
        return self.text[:characters]

    async def ended(self) -> Branch:
        """Wait for the end; return the branch for the answer."""
        await self._end.wait()
        assert self.branch is not None  # noqa: S101 - set before the event; for the type checker
        return self.branch

    def cancel(self, reason: str) -> None:
        """Cancel the branch: it fails with this reason, and its tokens count as discarded."""
        if self.branch is None and self.exception is None:
            self.outcome = replace(self.outcome, error=DiscardedError(reason))
            self.scope.cancel()

    def drop(self, reason: str) -> None:
        """Discard its text, whether it runs or has ended, because other branches do its work."""
        self.use = "dropped"
        self.cancel(reason)
        if self.branch is not None:
            self.discard_usage()
            self.branch = self.branch.model_copy(update={"usage": self.usage, "refused": False, "stop_text": None})

    def new_logprobs(self) -> tuple[TokenLogprob, ...]:
        """Return the log-probabilities that no event has reported yet."""
        return _new_logprobs(self)

    def take_back(self) -> bool:
        """Discard its text if nothing was read yet, and count its tokens as discarded. Returns whether it did."""
        if self._read:
            return False
        self._pieces.clear()
        self.logprobs.clear()
        self._unread, self.progress.first_s, self.logprobs_sent = 0, None, 0
        self.discard_usage()
        return True

    def discard_usage(self) -> None:
        """Count all generated tokens as discarded."""
        for each in self.writers:
            each.usage = each.usage.model_copy(update={"discarded_tokens": each.usage.completion_tokens})

    def write(self, text: str, now_s: float) -> bool:
        """Append text; return False once the buffer is full."""
        if self.progress.first_s is None:
            self.progress.first_s = now_s
        self._pieces.append(text)
        self._grow()
        if self.spec.choice:  # reported at once, without a reader
            return True
        self._unread += len(text)
        self._idle = anyio.Event()
        self._news.set()
        return self.withheld or self._unread <= BUFFER

    def end(self, now_s: float) -> Branch:
        """End the branch and notify its readers."""
        failed = self.exception is not None
        self.branch = Branch(
            id=self.spec.id,
            kind=self.spec.kind,
            **self.spec.about,
            text=self.text,
            status="failed" if failed else "finished",
            finish_reason=self.finish_reason,
            error=fix_surrogates(str(self.exception)) if failed else None,
            discarded=self.discarded,
            span=self.progress.ended(now_s),
            usage=self.usage,
            model=self.writers[-1].backend.name if self.writers else "",
            writers=self._several_writers(),
            decoding=self.metadata.decoding,
            logprobs=tuple(self.logprobs),
            tool_calls=self.calls.calls,
            refused=self.metadata.refused,
            stop_text=self.metadata.stop_text,
            cut_by=self.outcome.cut_by,
        )
        self._news.set()
        self._grow()
        self._end.set()
        return self.branch

    def _grow(self) -> None:
        more, self._more = self._more, anyio.Event()
        more.set()

    def _several_writers(self) -> tuple[Writer, ...]:
        if len(self.writers) == 1:
            return ()
        return tuple(
            Writer(model=each.backend.name, start=each.start, usage=each.usage, error=each.error)
            for each in self.writers
        )


class DiscardedError(StrettoError):
    """The branch was no longer needed."""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _new_logprobs(writing: RunningBranch | FurtherChoice) -> tuple[TokenLogprob, ...]:
    new = tuple(writing.logprobs[writing.logprobs_sent :])
    writing.logprobs_sent += len(new)
    return new
