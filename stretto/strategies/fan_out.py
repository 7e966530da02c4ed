"""Runs branches: bounded concurrency, deadline, budget, and nothing left behind on leaving.

A branch that fails is asked for once more in another way (retrying the same call is the backends'
business), then reported as failed; a failed branch never takes the others with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from stretto.answer import Decoding, FinishReason, Usage
from stretto.backends.allowance import allowed
from stretto.backends.base import Backend, Capabilities, CountsText, Prompt
from stretto.citation import Citation, PassageRecord
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
from stretto.request import Budget
from stretto.strategies.branch import NOT_TEXT, BranchSpec, Running, all_discarded
from stretto.strategies.ledger import Ledger, Reservation
from stretto.strategies.merge import Merge

HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # asking in another way cannot help

Emit = Callable[[Event], Awaitable[None]]


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
        self.citations: tuple[Citation, ...] = ()
        self.passages: tuple[PassageRecord, ...] = ()
        self.merge = Merge(lambda text: emit(TextDelta(text=text)), self.now_s)
        tasks.start_soon(self.merge.run)

    @property
    def model(self) -> str:
        """The name of this answer's backend."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What the backend of this answer can do."""
        return self._backend.capabilities

    @property
    def done(self) -> bool:
        """Whether the text is merged and every branch has ended."""
        return self.merge.finished and all(running.branch is not None for running in self.branches)

    def template(self, name: str) -> Template:
        """The prompt template of that name for this backend's family of models."""
        return self._prompts.get(name, self.capabilities.prompt_family)

    async def text_counter(self) -> Callable[[str], int] | None:
        """Counts the tokens of a text as the backend does; ``None`` where it can only estimate them."""
        return await self._backend.text_counter() if isinstance(self._backend, CountsText) else None

    def warn(self, text: str) -> None:
        """Say something in ``Answer.warnings``."""
        self.warnings.append(text)

    def warn_once(self, text: str) -> None:
        """Say it, unless another branch has said the same."""
        if text not in self.warnings:
            self.warn(text)

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
                own = anyio.current_time() + running.spec.until_s - self.now_s()
                scope.deadline = min(scope.deadline, self._until, own)
                for parent in running.spec.after:
                    await parent.ended()
                    running.needed_s = self.now_s()
                await checkpoint_if_cancelled()
                try:  # waiting for a slot that is free lets all other tasks run first
                    self._limiter.acquire_nowait()
                except anyio.WouldBlock:
                    await self._limiter.acquire()
                try:
                    await self._generate(running)
                finally:
                    self._limiter.release()
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
            self._estimate(running)

    async def _call(self, running: Running, prompt: Prompt) -> FinishReason:
        options = running.spec.options
        tokens = await self._backend.count_tokens(prompt) if self.ledger.budget.max_tokens_total else 0
        most, reservation = self.ledger.reserve(tokens, options.max_tokens)
        # The deadline is that of the whole answer; it is kept here, not call by call.
        options = options.model_copy(update={"max_tokens": most, "deadline_s": None})
        if running.spec.kind in NOT_TEXT:  # what they write is not the answer
            options = options.model_copy(update={"logprobs": None})
        reason: FinishReason = "stop"
        running.unreported = tokens or estimate(prompt)
        try:
            with allowed(reservation):
                async with self._backend.stream(prompt, options) as chunks:
                    async for chunk in chunks:
                        if chunk.usage:
                            self._count(running, chunk.usage, reservation)
                        if chunk.decoding:
                            running.decoding = (running.decoding or Decoding()) + chunk.decoding
                        running.logprobs += chunk.logprobs
                        for warning in chunk.warnings:
                            self.warn_once(warning)
                        if chunk.text:
                            fits = running.write(chunk.text, self.now_s())
                            await self.announce(BranchDelta(branch_id=running.spec.id, text=chunk.text))
                            if not fits:
                                return "length"
                            await checkpoint()  # who reads this branch goes before the next chunk, if there is one
                        reason = chunk.finish_reason or reason
        finally:
            self.ledger.settle(reservation)
        return reason

    def _count(self, running: Running, usage: Usage, reservation: Reservation | None = None) -> None:
        if usage.calls:
            running.unreported = 0
        running.usage += usage
        self.ledger.add(usage, reservation)

    def _estimate(self, running: Running) -> None:
        """Count a call that was cut short, and so never reported, by what was sent and received."""
        if running.unreported:
            written = max(0, math.ceil(len(running.text) / 4) - running.usage.completion_tokens)
            self._count(running, Usage(prompt_tokens=running.unreported, completion_tokens=written, calls=1))

    def _account(self, running: Running) -> None:
        """Settle the account of an ended branch."""
        self._estimate(running)
        if running.discarded:
            running.usage = all_discarded(running.usage)


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
            if not runner.done:
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
