"""Runs branches: bounded concurrency, deadline, budget, and nothing left behind on leaving.

A branch that fails is asked for once more in another way (retrying the same call is the backends'
business), then reported as failed; a failed branch never takes the others with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from stretto.answer import REFUSALS, Branch, Choice, Usage
from stretto.backends.base import (
    Backend,
    Capabilities,
    CountsText,
    Measured,
    ReportsLimits,
    measured_by,
)
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
from stretto.events import (
    BranchFailed,
    BranchFinished,
    BranchStarted,
    TextDelta,
)
from stretto.prompts import Catalogue, Template
from stretto.request import Budget
from stretto.strategies.branch import BranchSpec, Running
from stretto.strategies.branch_calls import BranchCalls, Emit
from stretto.strategies.ledger import Ledger
from stretto.strategies.merge import Merge
from stretto.surrogates import mend
from stretto.telemetry import branch_span, note_branch
from stretto.tool_calls import ToolCall

HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # asking in another way cannot help


class FanOut:
    """What a strategy works with: it starts branches, adds them to the merge, and warns. Opened by `fan_out`.

    Attributes:
        merge: the merged text.
        branches: all branches started so far.
        warnings: sentences for ``Answer.warnings``.
        ledger: what the answer has cost so far.
        strategy: the name of the strategy that wrote the answer in the end.
        parsed: the value of an answer that is held to a format.
        citations: for ``Answer.citations``.
        passages: for ``Answer.passages``.
        tool_calls: for ``Answer.tool_calls``.
        thoughts: for ``Answer.thoughts``.
        choices: for ``Answer.choices``.
        announce: hands an event to the reader.
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
        deadline_s: float,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._prompts = prompts
        self._began = began
        self._until = until
        self._deadline_s = deadline_s
        self._limiter = anyio.CapacityLimiter(max(1, backend.capabilities.parallel_slots))
        self.announce = emit
        self.ledger = Ledger(budget)
        self.branches: list[Running] = []
        self.warnings: list[str] = []
        self.citations: tuple[Citation, ...] = ()
        self.passages: tuple[PassageRecord, ...] = ()
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.thoughts: tuple[Mapping[str, Any], ...] = ()
        self.choices: tuple[Choice, ...] = ()
        self.strategy = ""
        self.parsed: Any = None
        self._calls = BranchCalls(backend, self.ledger, emit, self.warn_once, began)
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
        # Not isinstance: wrappers pass on what the backend inside has, which a protocol does not see since Python 3.12.
        found: Callable[[], Awaitable[Callable[[str], int] | None]] | None
        found = getattr(self._backend, CountsText.text_counter.__name__, None)
        return None if found is None else await found()

    def limits_left(self) -> Mapping[str, float]:
        """What the rate limits of the server leave now, by kind: requests, tokens; empty where nothing is known."""
        found: Callable[[], Mapping[str, float]] | None
        found = getattr(self._backend, ReportsLimits.limits_left.__name__, None)
        return {} if found is None else found()

    def measured(self) -> Measured | None:
        """What the backend has measured of its speed, if it is a local one."""
        return measured_by(self._backend)

    def send_along(self, fields: Mapping[str, Any]) -> None:
        """Send these fields of the request's body with every call."""
        self._calls.accompanying = fields

    def warn(self, text: str) -> None:
        """Add a sentence to ``Answer.warnings``."""
        self.warnings.append(mend(text))

    def warn_once(self, text: str) -> None:
        """Add a sentence to ``Answer.warnings``, unless it is there already."""
        if mend(text) not in self.warnings:
            self.warn(text)

    def start(self, spec: BranchSpec) -> Running:
        """Start a branch in the background. Its id gets an ending where another branch has the same one."""
        taken = {each.spec.id for each in self.branches}
        while spec.id in taken:
            spec = replace(spec, id=f"{spec.id}-again")
        running = Running(spec, needed_s=self.now_s())
        self.branches.append(running)
        self._tasks.start_soon(self._run, running, name=f"stretto branch {spec.id}")
        return running

    def now_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self._began

    async def _run(self, running: Running) -> None:
        with branch_span(running.spec.id, running.spec.kind, running.spec.title) as span:
            branch = await self._run_to_its_end(running)
            note_branch(span, branch)
        await self.announce(BranchFailed(branch=branch) if running.exception else BranchFinished(branch=branch))

    async def _run_to_its_end(self, running: Running) -> Branch:
        try:
            with running.scope as scope:
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
                    f"The deadline passed after {self._deadline_s:g} s. Allow more with deadline_s."
                )
                running.finish_reason = "deadline"
        finally:
            self._calls.settle(running)
            branch = running.end(self.now_s())
            running.spec.on_end(running)
        return branch

    async def _generate(self, running: Running) -> None:
        """Ask, and once more in another way if that fails."""
        spec = running.spec
        running.started_s = self.now_s()
        await self.announce(BranchStarted(branch_id=spec.id, kind=spec.kind, title=spec.title))
        first: StrettoError | None = None
        begun = refused = begins_refused = False
        for again in (False, True):
            running.exception = None
            try:
                received = "" if refused else running.text
                prompt = None if again and begun else spec.another_way(received) if again else spec.prompt()
                if prompt is None:
                    running.exception = first
                    return
                if again and running.text and spec.joint:
                    running.write(spec.joint, self.now_s())
                running.finish_reason = await self._calls.send(running, prompt, attempt=2 if again else 1)
            except BudgetExceededError as error:
                # What stopped the first call says more than that there was no second one.
                running.exception, running.finish_reason = first or error, "error" if first else "budget"
                return
            except StrettoError as error:
                self._calls.count(running, getattr(error, "usage", None) or Usage())
                running.exception, running.finish_reason = error, "error"
                if isinstance(error, HOPELESS):
                    return
            except Exception as error:  # noqa: BLE001 - the caller's backend may raise anything; the other branches go on
                message = f"{self._backend.name} failed: {type(error).__name__}: {error}"
                running.exception, running.finish_reason = BackendError(message, backend=self._backend.name), "error"
                running.exception.__cause__ = error
            else:
                refused = running.finish_reason in REFUSALS and not spec.accepts_refusal
                if not self._failed(running):
                    if begins_refused:
                        self.warn(
                            f"{spec.called or repr(spec.title)} begins with a refusal that had been shown already; "
                            "the model wrote the rest when asked again."
                        )
                    return
            first = running.exception
            begun = bool(running.calls or running.others)  # a warning has reported it already
            self._calls.estimate(running)
            if refused and not again and running.text.strip() and not running.take_back():
                begins_refused = True
                running.write("\n\n", self.now_s())

    def _failed(self, running: Running) -> bool:
        """Whether a call that ended in good order gave nothing to use; its exception says why."""
        if running.finish_reason in REFUSALS:
            if running.spec.accepts_refusal:
                return False
            message = "The model refused to write this part."
        elif running.text.strip() or running.calls or running.spec.accepts_silence:
            return False
        else:
            message = f"{self._backend.name} returned no text. Ask again, or try another model."
            running.finish_reason = "error"
        running.exception = BackendError(message, backend=self._backend.name)
        return True


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
    deadline_s = math.inf if deadline_s is None else deadline_s
    until = anyio.current_time() + began + deadline_s - time.perf_counter()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        runner = FanOut(
            tasks, backend, emit, prompts=prompts, budget=budget, began=began, until=until, deadline_s=deadline_s
        )
        try:
            yield runner
        except Exception as error:  # noqa: BLE001 - raised again below, outside the task group that would wrap it
            failure = error
        finally:
            if not runner.done:
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
