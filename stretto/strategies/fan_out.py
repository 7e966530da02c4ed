"""Runs branches: bounded concurrency, deadline, budget, and nothing left behind on leaving.

A branch that fails is asked for once more in another way (retrying the same call is the backends'
business), then reported as failed; a failed branch never takes the others with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from stretto.answer import Branch, BranchKind, FinishReason, Span, Usage
from stretto.backends.allowance import allowed
from stretto.backends.base import Backend, Capabilities, Prompt
from stretto.errors import (
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    BudgetExceededError,
    DeadlineExceededError,
    ModelNotFoundError,
    StrettoError,
)
from stretto.events import BranchDelta, BranchFailed, BranchFinished, BranchStarted, Event, TextDelta
from stretto.prompts import Catalogue, Template
from stretto.request import Budget, GenerationOptions
from stretto.strategies.ledger import Ledger, Reservation
from stretto.strategies.merge import Merge

BUFFER = 262_144  # characters a branch may write before its turn comes; a longer one is cut
HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # asking in another way cannot help

Emit = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True)
class BranchSpec:
    """What a branch asks for.

    Attributes:
        prompt: made when the branch starts, after those in ``after`` have ended.
        another_way: the prompt to use once more after a failure, from the text received so far;
            ``None`` gives up.
        joint: tells who reads the pieces that the unfinished line before it is void and comes again whole; put
            between what was received and what comes in that other way. Neither is part of the text.
        on_end: called when the branch has ended, however it ended.
        accepts_refusal: a refusal is this branch's result, not its failure.
    """

    id: str
    kind: BranchKind
    prompt: Callable[[], Prompt]
    options: GenerationOptions
    title: str = ""
    after: Sequence[Running] = ()
    another_way: Callable[[str], Prompt | None] = lambda _: None
    joint: str = ""
    on_end: Callable[[Running], None] = lambda _: None
    accepts_refusal: bool = False


@dataclass(eq=False)
class Running:
    """A branch from its start to its end. One reader; any number may wait for the end.

    ``replaced``: other branches did its work; how it ended does not count for the answer.
    ``dropped``: nothing of what it wrote is in the answer; its tokens count as discarded.
    ``unreported``: estimated tokens of the prompt of a call under way, whose usage is not known yet.
    """

    spec: BranchSpec
    needed_s: float
    started_s: float | None = None
    first_s: float | None = None
    usage: Usage = field(default_factory=Usage)
    finish_reason: FinishReason = "stop"
    exception: StrettoError | None = None
    branch: Branch | None = None
    unreported: int = 0
    replaced: bool = False
    dropped: bool = False
    _pieces: list[str] = field(default_factory=list)
    _read: int = 0
    _unread: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
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
        return not (self.discarded or self.replaced or self.spec.kind in ("outline", "plan"))

    @property
    def in_answer(self) -> bool:
        """Whether the answer holds text of it."""
        kept = not (self.dropped or self.discarded or self.spec.kind in ("outline", "plan"))
        return kept and bool(self.text.strip())

    async def read(self) -> str:
        """Text written since the last read; waits for some; empty once the branch has ended."""
        while self._read == len(self._pieces) and self.branch is None:
            self._news = anyio.Event()
            await self._news.wait()
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

    def write(self, text: str, now_s: float) -> bool:
        """Take new text; False once the buffer of an unread branch is full."""
        if self.first_s is None:
            self.first_s = now_s
        self._pieces.append(text)
        self._unread += len(text)
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
            error=str(self.exception) if failed else None,
            span=Span(needed_s=self.needed_s, started_s=self.started_s, first_s=self.first_s, ended_s=now_s),
            usage=self.usage,
        )
        self._news.set()
        self._end.set()
        return self.branch


class DiscardedError(StrettoError):
    """The branch was not needed any more."""


class FanOut:
    """What a strategy works with: it starts branches, adds them to the merge, warns.

    Opened by `fan_out`. Attributes: ``merge`` the merged text; ``branches`` all started so far;
    ``warnings``; ``ledger`` what it has cost.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        backend: Backend,
        emit: Emit,
        *,
        prompts: Catalogue,
        budget: Budget,
        began: float,
        until: float,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._prompts = prompts
        self._began = began
        self._until = until
        self._limiter = anyio.CapacityLimiter(max(1, backend.capabilities.parallel_slots))
        self.announce = emit
        self.ledger = Ledger(budget)
        self.branches: list[Running] = []
        self.warnings: list[str] = []
        self.merge = Merge(lambda text: emit(TextDelta.model_construct(text=text)), self.now_s)
        tasks.start_soon(self.merge.run)

    @property
    def capabilities(self) -> Capabilities:
        """What the backend of this answer can do."""
        return self._backend.capabilities

    def template(self, name: str) -> Template:
        """The prompt template of that name for this backend's family of models."""
        return self._prompts.get(name, self.capabilities.prompt_family)

    def warn(self, text: str) -> None:
        """Say something in ``Answer.warnings``."""
        self.warnings.append(text)

    def start(self, spec: BranchSpec) -> Running:
        """Start a branch in the background."""
        running = Running(spec, needed_s=self.now_s())
        self.branches.append(running)
        self._tasks.start_soon(self._run, running, name=f"stretto branch {spec.id}")
        return running

    def now_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self._began

    async def _run(self, running: Running) -> None:
        try:
            with running._scope as scope:
                scope.deadline = min(scope.deadline, self._until)
                for parent in running.spec.after:
                    await parent.ended()
                    running.needed_s = self.now_s()
                async with self._limiter:
                    await self._generate(running)
            if scope.cancelled_caught and running.exception is None:
                running.exception = DeadlineExceededError(
                    f"The deadline passed after {self.now_s():.1f} s. Allow more with deadline_s."
                )
                running.finish_reason = "deadline"
        finally:
            self._account(running)
            branch = running.end(self.now_s())
            running.spec.on_end(running)
        await self.announce(BranchFailed(branch=branch) if running.exception else BranchFinished(branch=branch))

    async def _generate(self, running: Running) -> None:
        """Ask, and once more in another way if that fails."""
        spec = running.spec
        running.started_s = self.now_s()
        await self.announce(BranchStarted(branch_id=spec.id, kind=spec.kind, title=spec.title))
        first: StrettoError | None = None
        for again in (False, True):
            running.exception = None
            try:
                prompt = spec.another_way(running.text) if again else spec.prompt()
                if prompt is None:
                    running.exception = first
                    return
                if again and running.text and spec.joint:
                    running.write(spec.joint, self.now_s())
                running.finish_reason = await self._call(running, prompt)
            except BudgetExceededError as error:
                # What stopped the first call says more than that there was no second one.
                running.exception, running.finish_reason = first or error, "error" if first else "budget"
                return
            except StrettoError as error:
                self._count(running, getattr(error, "usage", None) or Usage())
                running.exception, running.finish_reason = error, "error"
                if isinstance(error, HOPELESS):
                    return
            except Exception as error:  # noqa: BLE001 - a backend of the caller's own; the other branches live on
                message = f"{self._backend.name} failed: {type(error).__name__}: {error}"
                running.exception, running.finish_reason = BackendError(message, backend=self._backend.name), "error"
                running.exception.__cause__ = error
            else:
                if running.finish_reason == "refusal" and not spec.accepts_refusal:
                    running.exception = BackendError(
                        "The model refused to write this part.", backend=self._backend.name
                    )
                elif not running.text.strip() and running.finish_reason != "refusal":
                    running.exception = BackendError(
                        f"{self._backend.name} returned no text. Ask again, or try another model.",
                        backend=self._backend.name,
                    )
                    running.finish_reason = "error"
                else:
                    return
            first = running.exception

    async def _call(self, running: Running, prompt: Prompt) -> FinishReason:
        options = running.spec.options
        tokens = await self._backend.count_tokens(prompt) if self.ledger.budget.max_tokens_total else 0
        most, reservation = self.ledger.reserve(tokens, options.max_tokens)
        # The deadline is that of the whole answer; it is kept here, not call by call.
        options = options.model_copy(update={"max_tokens": most, "deadline_s": None})
        reason: FinishReason = "stop"
        running.unreported = tokens or estimate(prompt)
        try:
            with allowed(reservation):
                async with self._backend.stream(prompt, options) as chunks:
                    async for chunk in chunks:
                        if chunk.usage:
                            self._count(running, chunk.usage, reservation)
                        if chunk.text:
                            fits = running.write(chunk.text, self.now_s())
                            await self.announce(BranchDelta.model_construct(branch_id=running.spec.id, text=chunk.text))
                            if not fits:
                                return "length"
                        reason = chunk.finish_reason or reason
        finally:
            self.ledger.settle(reservation)
        return reason

    def _count(self, running: Running, usage: Usage, reservation: Reservation | None = None) -> None:
        if usage.calls:
            running.unreported = 0
        running.usage += usage
        self.ledger.add(usage, reservation)

    def _account(self, running: Running) -> None:
        """Settle the account of an ended branch; a stream that was cut short never reported, so estimate."""
        if running.unreported:
            written = max(0, math.ceil(len(running.text) / 4) - running.usage.completion_tokens)
            self._count(running, Usage(prompt_tokens=running.unreported, completion_tokens=written, calls=1))
        if running.discarded:
            running.usage = all_discarded(running.usage)


def all_discarded(usage: Usage) -> Usage:
    """The same usage, with nothing of what was generated in the answer."""
    return usage.model_copy(update={"discarded_tokens": usage.completion_tokens})


def estimate(prompt: Prompt) -> int:
    """Roughly the tokens of a prompt: four characters each."""
    return sum(math.ceil(len(message.content) / 4) for message in prompt.messages)


@asynccontextmanager
async def fan_out(
    backend: Backend,
    emit: Emit,
    *,
    prompts: Catalogue,
    budget: Budget,
    began: float,
    deadline_s: float | None = None,
) -> AsyncIterator[FanOut]:
    """Open a place to run branches in. Leaving it ends every branch that still runs.

    ``began``: `time.perf_counter` at the arrival of the request. Raises what its body raises, never
    an exception group around it.
    """
    until = math.inf if deadline_s is None else anyio.current_time() + began + deadline_s - time.perf_counter()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        runner = FanOut(tasks, backend, emit, prompts=prompts, budget=budget, began=began, until=until)
        try:
            yield runner
        except Exception as error:  # noqa: BLE001 - raised again below, outside the task group that would wrap it
            failure = error
        finally:
            tasks.cancel_scope.cancel()
            runner.merge.close()
    if failure is not None:
        raise failure
