"""A branch that runs: its text so far, and its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio

from stretto.answer import Branch, Choice, FinishReason, Span, Usage, Writer
from stretto.backends.base import Backend, Stages
from stretto.errors import StrettoError
from stretto.foundation.surrogates import Mending, mend
from stretto.strategies.branch_spec import NOT_TEXT, BranchSpec
from stretto.token_records import DecodingStats, TokenLogprob
from stretto.tool_calls import ToolCallFragment, ToolCallsSoFar

BUFFER = 262_144  # characters that a branch may buffer before its turn; a longer one is cut


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
        """The log-probabilities that are in no event yet."""
        return _new_logprobs(self)

    @property
    def choice(self) -> Choice:
        """The choice for the answer."""
        return Choice(
            text="".join(self.pieces),
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
            refused=self.refused,
        )


@dataclass(eq=False)
class Writing:
    """What one model does for a branch: where its text begins, what it costs, why it failed."""

    backend: Backend
    start: int = 0
    usage: Usage = field(default_factory=Usage)
    error: str | None = None


@dataclass(eq=False)
class RunningBranch:
    """A running or ended branch. It has one reader; any number of tasks may wait for its end.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        spec: what it is to write, and how.
        needed_s: when what it waits for was there, in seconds since the request arrived, as the next two.
        started_s: when its call was sent.
        first_s: when its first text arrived.
        writers: the models that were asked, in their order.
        decoding: how a local model found its tokens.
        logprobs: of its tokens, if they were asked for.
        finish_reason: how it ended.
        calls: its tool calls.
        others: further answers of the same call, by index.
        thoughts: its reasoning.
        refused: its text is a refusal in the model's own words.
        stop_text: the stop text that ended it.
        unheld: keywords of its schema that the backend does not hold its text to.
        exception: why it failed.
        branch: what the answer says of it; ``None`` until it has ended.
        stages: of its call on a local model, in seconds since the request arrived.
        extra: other fields of the response of the model's server.
        logprobs_sent: how many of them were in events.
        cut_at: ``max_tokens`` of the answer, where that left its last call less room than it would have had.
        left_out: characters of continuations that repeated what they were to continue.
        unreported: estimated tokens of the prompt of a call under way, whose usage is not known yet.
        replaced: other branches did its work; its end does not count for the answer.
        partial: it wrote no text of the answer (an outline), but its early end makes the answer incomplete.
        reported: a warning has reported its end.
        dropped: none of its text is in the answer; its tokens count as discarded.
        carried_out: its tool calls were carried out; the answer goes on with their results.
        handed_over: how many of its tool calls `BranchSpec.on_call` has.
        withheld: nobody reads it before its end.
        scope: in which its call runs; cancelling it ends the call.
    """

    spec: BranchSpec
    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    writers: list[Writing] = field(default_factory=list)
    decoding: DecodingStats | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason = "stop"
    calls: ToolCallsSoFar = field(default_factory=ToolCallsSoFar)
    others: dict[int, FurtherChoice] = field(default_factory=dict)
    thoughts: tuple[Mapping[str, Any], ...] = ()
    refused: bool = False
    stop_text: str | None = None
    unheld: tuple[str, ...] = ()
    exception: StrettoError | None = None
    branch: Branch | None = None
    stages: Stages = field(default_factory=Stages)
    extra: dict[str, Any] = field(default_factory=dict)
    logprobs_sent: int = 0
    cut_at: int | None = None
    left_out: int = 0
    unreported: int = 0
    replaced: bool = False
    partial: bool = False
    reported: bool = False
    dropped: bool = False
    carried_out: bool = False
    handed_over: int = 0
    withheld: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _pieces: list[str] = field(default_factory=list)
    _read: int = 0
    _unread: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
    _idle: anyio.Event = field(default_factory=anyio.Event)
    _end: anyio.Event = field(default_factory=anyio.Event)

    @property
    def usage(self) -> Usage:
        """What it cost so far, by all its models."""
        return sum((each.usage for each in self.writers), Usage())

    @property
    def text(self) -> str:
        """The text so far, without lines that a `restart_marker` cancelled."""
        text = "".join(self._pieces)
        while self.spec.restart_marker and (at := text.find(self.spec.restart_marker)) >= 0:
            text = text[: text.rfind("\n", 0, at) + 1] + text[at + len(self.spec.restart_marker) :]
        return text

    @property
    def discarded(self) -> bool:
        """Whether it was cancelled because it was not needed."""
        return isinstance(self.exception, DiscardedError)

    @property
    def unused(self) -> bool:
        """Whether it turned out not to be needed."""
        return self.discarded or self.dropped

    def wrote(self, writing: Writing) -> bool:
        """Whether there is text of this writer, one of `writers`."""
        following = self.writers[self.writers.index(writing) + 1 :]
        return (following[0].start if following else len(self.text)) > writing.start

    @property
    def counts(self) -> bool:
        """Whether its end counts as the end of a part of the answer."""
        if self.discarded or self.replaced:
            return False
        return self.partial or self.spec.kind not in NOT_TEXT

    @property
    def in_answer(self) -> bool:
        """Whether the answer contains its text."""
        kept = not (self.unused or self.spec.kind in NOT_TEXT)
        return kept and bool(self.text.strip() or (self.calls and not self.carried_out))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All its answers."""
        first = Choice(
            text=self.text,
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
            refused=self.refused,
        )
        return first, *(self.others[number].choice for number in sorted(self.others))

    def take_call(self, delta: ToolCallFragment) -> None:
        """Take a piece of a tool call, and hand over the calls before it once it begins the next one."""
        before = len(self.calls)
        self.calls.add(delta)
        if len(self.calls) > before:
            self.hand_over()

    def hand_over(self, *, ended: bool = False) -> None:
        """Hand over the calls that are whole: those before the last one, or all where the stream has ``ended``."""
        while self.spec.on_call is not None and self.handed_over < len(self.calls) - (not ended):
            call = self.calls.call(self.handed_over)
            if not (ended or _is_json(call.arguments)):  # its server mixes the pieces of several calls
                return
            self.handed_over += 1
            self.spec.on_call(self.handed_over - 1, call)

    def further(self, number: int) -> FurtherChoice:
        """A further answer of the same call."""
        return self.others.setdefault(number, FurtherChoice())

    @property
    def seen(self) -> bool:
        """Whether a reader has some of its text."""
        return bool(self._read)

    async def caught_up(self) -> None:
        """Wait until the reader has passed on all text and waits for more."""
        if not (self.spec.choice or self.withheld):
            await self._idle.wait()

    def withhold(self) -> None:
        """Nobody reads it before its end: its buffer has no bound, tool calls do not wait, and it can be begun anew."""
        self.withheld = True
        self._idle.set()

    async def begun(self) -> None:
        """Wait for the first text or the end; nothing is read."""
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

    async def ended(self) -> Branch:
        """Wait for the end; return the branch for the answer."""
        await self._end.wait()
        assert self.branch is not None  # noqa: S101 - set before the event; for the type checker
        return self.branch

    def cancel(self, reason: str) -> None:
        """Cancel the branch: it fails with this reason, and its tokens count as discarded."""
        if self.branch is None and self.exception is None:
            self.exception = DiscardedError(reason)
            self.scope.cancel()

    def drop(self, reason: str) -> None:
        """Discard its text, whether it still runs or has ended: other branches do its work."""
        self.replaced = self.dropped = True
        self.cancel(reason)
        if self.branch is not None:
            self.discard_usage()
            self.branch = self.branch.model_copy(update={"usage": self.usage, "refused": False, "stop_text": None})

    def new_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The log-probabilities that no event has told."""
        return _new_logprobs(self)

    def take_back(self) -> bool:
        """Discard its text if nothing was read yet; its tokens count as discarded. Returns whether it was discarded."""
        if self._read:
            return False
        self._pieces.clear()
        self.logprobs.clear()
        self._unread, self.first_s, self.logprobs_sent = 0, None, 0
        self.discard_usage()
        return True

    def discard_usage(self) -> None:
        """Count all generated tokens as discarded."""
        for each in self.writers:
            each.usage = each.usage.model_copy(update={"discarded_tokens": each.usage.completion_tokens})

    def write(self, text: str, now_s: float) -> bool:
        """Append text; returns False once the buffer is full."""
        if self.first_s is None:
            self.first_s = now_s
        self._pieces.append(text)
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
            title=self.spec.title,
            text=self.text,
            status="failed" if failed else "finished",
            finish_reason=self.finish_reason,
            error=mend(str(self.exception)) if failed else None,
            discarded=self.discarded,
            span=Span(
                needed_s=self.needed_s,
                started_s=self.started_s,
                first_s=self.first_s,
                ended_s=now_s,
                **asdict(self.stages),
            ),
            usage=self.usage,
            model=self.writers[-1].backend.name if self.writers else "",
            writers=self._several_writers(),
            decoding=self.decoding,
            logprobs=tuple(self.logprobs),
            tool_calls=self.calls.calls,
            refused=self.refused,
            stop_text=self.stop_text,
        )
        self._news.set()
        self._end.set()
        return self.branch

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
