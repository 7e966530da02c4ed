"""A branch: what it asks for, what it has written so far, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import anyio

from stretto.answer import Branch, BranchKind, Choice, Decoding, FinishReason, Span, TokenLogprob, Usage
from stretto.backends.base import Prompt, Stages
from stretto.errors import StrettoError
from stretto.request import GenerationOptions
from stretto.surrogates import Mending, mend
from stretto.tool_calls import ToolCallsSoFar

NOT_TEXT: frozenset[BranchKind] = frozenset({"outline", "plan", "passage", "collapse"})
"""Kinds of branches whose text is not part of the answer."""

BUFFER = 262_144  # characters a branch may write before its turn comes; a longer one is cut


@dataclass(frozen=True)
class BranchSpec:
    """What a branch asks for.

    Attributes:
        id: unique within the answer.
        kind: what it writes.
        options: how to sample.
        title: of its point or item.
        after: branches that must have ended before it starts.
        prompt: made when the branch starts, after those in ``after`` have ended.
        another_way: the prompt to use once more after a failure, from the text received so far;
            ``None`` gives up.
        joint: tells who reads the pieces that the unfinished line before it is void and comes again whole; put
            between what was received and what comes in that other way. Neither is part of the text.
        called: what warnings call it, as the subject of a sentence; without it, its title in quotes.
        on_end: called when the branch has ended, however it ended.
        until_s: seconds after the request at which the branch ends as failed, where that is before the deadline.
        accepts_refusal: a refusal is this branch's result, not its failure.
        accepts_silence: so is an answer without any text.
        choice: which of several answers it writes; from 1 on, its text is told as that of a choice and not merged.
    """

    id: str
    kind: BranchKind
    prompt: Callable[[], Prompt]
    options: GenerationOptions
    title: str = ""
    called: str = ""
    after: Sequence[Running] = ()
    another_way: Callable[[str], Prompt | None] = lambda _: None
    joint: str = ""
    on_end: Callable[[Running], None] = lambda _: None
    until_s: float = math.inf
    accepts_refusal: bool = False
    accepts_silence: bool = False
    choice: int = 0


@dataclass(eq=False)
class FurtherChoice:
    """A further answer of one call, while it comes."""

    pieces: list[str] = field(default_factory=list)
    calls: ToolCallsSoFar = field(default_factory=ToolCallsSoFar)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason = "error"
    mending: Mending = field(default_factory=Mending)

    @property
    def choice(self) -> Choice:
        """The same as the answer will hold it."""
        return Choice(
            text="".join(self.pieces),
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
        )


@dataclass(eq=False)
class Running:
    """A branch from its start to its end. One reader; any number may wait for the end.

    ``replaced``: other branches did its work; how it ended does not count for the answer.
    ``partial``: it wrote no text of the answer, and yet the answer lacks what it was cut short of: an outline.
    ``told``: a warning has said how it ended.
    ``dropped``: nothing of what it wrote is in the answer; its tokens count as discarded.
    ``stages``: of its call on a local model, in seconds since the request arrived.
    ``calls``: the tool calls it asks for; ``others``: further answers that come in the same call.
    ``unreported``: estimated tokens of the prompt of a call under way, whose usage is not known yet.
    """

    spec: BranchSpec
    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    usage: Usage = field(default_factory=Usage)
    decoding: Decoding | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: FinishReason = "stop"
    calls: ToolCallsSoFar = field(default_factory=ToolCallsSoFar)
    others: dict[int, FurtherChoice] = field(default_factory=dict)
    exception: StrettoError | None = None
    branch: Branch | None = None
    stages: Stages = field(default_factory=Stages)
    unreported: int = 0
    replaced: bool = False
    partial: bool = False
    told: bool = False
    dropped: bool = False
    _pieces: list[str] = field(default_factory=list)
    _read: int = 0
    _unread: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
    _idle: anyio.Event = field(default_factory=anyio.Event)
    _end: anyio.Event = field(default_factory=anyio.Event)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def text(self) -> str:
        """Everything written so far, without what a joint made void."""
        text = "".join(self._pieces)
        while self.spec.joint and (at := text.find(self.spec.joint)) >= 0:
            text = text[: text.rfind("\n", 0, at) + 1] + text[at + len(self.spec.joint) :]
        return text

    @property
    def discarded(self) -> bool:
        """Whether it was dropped because it was not needed."""
        return isinstance(self.exception, DiscardedError)

    @property
    def counts(self) -> bool:
        """Whether how it ended is how a part of the answer ended."""
        if self.discarded or self.replaced:
            return False
        return self.partial or self.spec.kind not in NOT_TEXT

    @property
    def in_answer(self) -> bool:
        """Whether the answer holds text of it."""
        kept = not (self.dropped or self.discarded or self.spec.kind in NOT_TEXT)
        return kept and bool(self.text.strip() or self.calls)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All answers that it holds."""
        first = Choice(
            text=self.text,
            tool_calls=self.calls.calls,
            finish_reason=self.finish_reason,
            logprobs=tuple(self.logprobs),
        )
        return first, *(self.others[number].choice for number in sorted(self.others))

    def further(self, number: int) -> FurtherChoice:
        """A further answer of the same call."""
        return self.others.setdefault(number, FurtherChoice())

    async def caught_up(self) -> None:
        """Wait until the reader has handed on all that was written, and waits for more."""
        if not self.spec.choice:
            await self._idle.wait()

    async def read(self) -> str:
        """Text written since the last read; waits for some; empty once the branch has ended."""
        while self._read == len(self._pieces) and self.branch is None:
            self._news = anyio.Event()
            self._idle.set()
            await self._news.wait()
        self._idle = anyio.Event()
        text = "".join(self._pieces[self._read :])
        self._read, self._unread = len(self._pieces), 0
        return text

    async def ended(self) -> Branch:
        """Wait for the end and return the branch as the answer will hold it."""
        await self._end.wait()
        assert self.branch is not None  # noqa: S101 - set before the event, told to the type checker
        return self.branch

    def cancel(self, cause: str) -> None:
        """Drop the branch: it ends as failed with this cause, and its tokens count as discarded."""
        if self.branch is None and self.exception is None:
            self.exception = DiscardedError(cause)
            self._scope.cancel()

    def drop(self, cause: str) -> None:
        """Do without what it wrote, whether it still runs or has ended: other branches do its work."""
        self.replaced = self.dropped = True
        self.cancel(cause)
        if self.branch is not None:
            self.usage = all_discarded(self.usage)
            self.branch = self.branch.model_copy(update={"usage": self.usage})

    def take_back(self) -> bool:
        """Forget what was written, if nobody has read any of it: its tokens count as discarded. Whether that went."""
        if self._read:
            return False
        self._pieces.clear()
        self.logprobs.clear()
        self._unread, self.first_s = 0, None
        self.usage = all_discarded(self.usage)
        return True

    def write(self, text: str, now_s: float) -> bool:
        """Take new text; False once the buffer of an unread branch is full."""
        if self.first_s is None:
            self.first_s = now_s
        self._pieces.append(text)
        if self.spec.choice:  # told as it comes, and read by nobody
            return True
        self._unread += len(text)
        self._idle = anyio.Event()
        self._news.set()
        return self._unread <= BUFFER

    def end(self, now_s: float) -> Branch:
        """Freeze the branch; readers see its end."""
        failed = self.exception is not None
        self.branch = Branch(
            id=self.spec.id,
            kind=self.spec.kind,
            title=self.spec.title,
            text=self.text,
            status="failed" if failed else "finished",
            finish_reason=self.finish_reason,
            error=mend(str(self.exception)) if failed else None,
            span=Span(
                needed_s=self.needed_s,
                started_s=self.started_s,
                first_s=self.first_s,
                ended_s=now_s,
                **asdict(self.stages),
            ),
            usage=self.usage,
            decoding=self.decoding,
            logprobs=tuple(self.logprobs),
            tool_calls=self.calls.calls,
        )
        self._news.set()
        self._end.set()
        return self.branch


class DiscardedError(StrettoError):
    """The branch was not needed any more."""


def all_discarded(usage: Usage) -> Usage:
    """The same usage, with nothing of what was generated in the answer."""
    return usage.model_copy(update={"discarded_tokens": usage.completion_tokens})
