"""Run branches with bounded concurrency, a deadline and a budget, and leave nothing running on exit.

A branch that fails for good (after all that `attempts` tries) is reported as failed, and never takes the others down.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from stretto.backends.base import Backend, Capabilities, CountsText, method_of
from stretto.backends.load import CallLimits, Load, LoadShare, load_of
from stretto.foundation.surrogates import fix_surrogates
from stretto.language.telling import language_of
from stretto.observe.telemetry import branch_span, note_branch
from stretto.prompts import Catalogue, Template, family_for
from stretto.router.case import PromptFamily
from stretto.strategies.base import StrategyResult
from stretto.strategies.quality.phrases import Leaks
from stretto.strategies.runtime.answer_limit import AnswerLimit
from stretto.strategies.runtime.attempts import Attempts
from stretto.strategies.runtime.branch import Outcome, Progress, RunningBranch
from stretto.strategies.runtime.branch_calls import BranchCalls, Emit
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fallback import Fallback
from stretto.strategies.runtime.going_ahead import GoingAhead
from stretto.strategies.runtime.ledger import Ledger
from stretto.strategies.runtime.merge import Merge
from stretto.strategies.runtime.model_profile import ModelProfile
from stretto.values.answer import Branch
from stretto.values.answer_warning import AnswerWarning, WarningCode
from stretto.values.errors import DeadlineExceededError
from stretto.values.events import BranchFailed, BranchFinished, TextDelta
from stretto.values.request import Request

_AFTER_DEADLINE_S = 1.0


class Runner:
    """The interface of a strategy to its answer: starts branches, merges them, and warns. Opened by `open_runner`.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        merge: the merged text.
        branches: all branches started so far.
        fallback: the models to use when that of a branch fails.
        backends: those of the client by role.
        known: what is known about the answer's model.
        warnings: for ``Answer.warnings``.
        ledger: what the answer has cost so far.
        leaks: keeps the words of the sent prompts out of the answer.
        language: of the question.
        announce: passes an event to the reader.
        before: changes each branch that a strategy starts, for instance to have another model write parts first.
        failure: an exception of the caller's code in a branch: it ends the answer, and reaches the caller unchanged.
        overran: the deadline ended the strategy.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        backend: Backend,
        emit: Emit,
        request: Request,
        *,
        templates: Catalogue,
        began: float,
        prompt_family: PromptFamily,
        fallback: Fallback,
        share: LoadShare,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._templates = templates
        self._prompt_family = prompt_family
        self._families: dict[int, str] = {}
        self._began = began
        self._deadline_s = math.inf if request.deadline_s is None else request.deadline_s
        self._until = anyio.current_time() + began + self._deadline_s - time.perf_counter()
        self._share = share
        self._slots = Slots(request, backend, share)
        self._going_ahead = GoingAhead(request.preference)
        self.backends: Mapping[str, Backend] = {"main": backend}
        self.language = language_of(request.question)
        self.known = ModelProfile(backend, self.language, (self.capabilities.prompt_family, templates.overrides))
        self.announce = emit
        self.before: Callable[[BranchSpec], BranchSpec] = lambda spec: spec
        self.ledger = Ledger(request.budget)
        self.branches: list[RunningBranch] = []
        self.warnings: list[AnswerWarning] = []
        self.failure: Exception | None = None
        self.overran = False
        self._ids: set[str] = set()
        self._repeated: Counter[str] = Counter()
        self._warned: set[str] = set()
        self.fallback = fallback
        self._calls = BranchCalls(self.ledger, emit, self.warn_once, began)
        self._attempts = Attempts(
            backend,
            self.fallback,
            self._calls,
            announce=emit,
            warn=self.warn,
            now_s=self.now_s,
            target_of=self.target_of,
        )
        self._calls.limit = AnswerLimit(request.options.max_tokens)
        self.leaks = Leaks(self.warn_once)
        self.merge = Merge(lambda text: emit(TextDelta(text=text)), self.now_s, self.leaks.screen)
        tasks.start_soon(self.merge.run)

    def __setattr__(self, name: str, value: object) -> None:
        """Reject attributes that a strategy has to return, since they would be lost here. Raises `AttributeError`."""
        if name in StrategyResult.__dataclass_fields__:
            raise AttributeError(f"A Runner has no {name!r}. Return it: return StrategyResult({name}=...).")
        super().__setattr__(name, value)

    @property
    def model(self) -> str:
        """The name of this answer's backend."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What the backend of this answer can do, with the prompt family chosen for it."""
        return self.target.capabilities

    @property
    def target(self) -> PromptTarget:
        """The backend of this answer as a prompt target."""
        return self.target_of(self._backend)

    def target_of(self, backend: Backend) -> PromptTarget:
        """Return a backend as a prompt target."""
        able, calls = backend.capabilities, self._slots.limits(backend).now
        if id(backend) not in self._families:
            self._families[id(backend)] = family_for(able.prompt_family, self._prompt_family(backend))
        family = self._families[id(backend)]
        able = replace(able, prompt_family=family, concurrent_calls=calls)
        return PromptTarget(backend, able, partial(self._template, family))

    def _template(self, family: str, name: str) -> Template:
        found = self._templates.get(name, family)
        self.leaks.add(found.wordings)
        return found

    @property
    def done(self) -> bool:
        """Whether the text is merged and every branch has ended."""
        return self.merge.finished and all(running.branch is not None for running in self.branches)

    async def text_counter(self) -> Callable[[str], int] | None:
        """Return a function that counts tokens as the backend does; ``None`` if it can only estimate them."""
        counter = method_of(self._backend, CountsText.text_counter)
        return None if counter is None else await counter()

    @property
    def load(self) -> Load:
        """How busy the backend was with other answers when this one began, and how long its calls take."""
        return self._slots.limits(self._backend).load

    def limits_left(self) -> Mapping[str, float]:
        """Return what the server's rate limits leave now, by kind (requests, tokens); empty if nothing is known."""
        return load_of(self._backend).limits_left

    @contextmanager
    def until_deadline(self) -> Iterator[None]:
        """Limit the strategy's own work by the deadline. Raises `DeadlineExceededError`."""
        with anyio.CancelScope(deadline=self._until) as scope:
            yield
        if scope.cancelled_caught:
            raise self.too_late()

    def too_late(self, after_s: float | None = None) -> DeadlineExceededError:
        """Make the error for work that the deadline ended, or a part's own deadline of ``after_s`` seconds."""
        passed_s = round(self._deadline_s if after_s is None else after_s, 3)
        return DeadlineExceededError(f"The deadline passed after {passed_s:g} s. Allow more with deadline_s.")

    def send_along(self, fields: Mapping[str, Any]) -> None:
        """Send these fields of the request's body with every call."""
        self._calls.accompanying = fields

    def warn(self, text: str, code: WarningCode | None = None, *, part: str | None = None) -> None:
        """Add a sentence to ``Answer.warnings``.

        Args:
            text: the sentence; an `AnswerWarning` brings its own code and part.
            code: the kind of warning.
            part: the id of the branch that it is about.
        """
        known = text if isinstance(text, AnswerWarning) else AnswerWarning(text)
        self.warnings.append(AnswerWarning(fix_surrogates(text), code or known.code, part or known.part))
        self._warned.add(fix_surrogates(text))

    def warn_once(self, text: str, code: WarningCode | None = None, *, part: str | None = None) -> None:
        """Add a sentence to ``Answer.warnings``, unless it is there already."""
        if fix_surrogates(text) not in self._warned:
            self.warn(text, code, part=part)

    def start(self, spec: BranchSpec) -> RunningBranch:
        """Start a branch in the background. Its id gets a suffix if another branch has the same one."""
        spec = replace(spec, id=self._free_id(spec.id))
        running = RunningBranch(self.before(spec), Progress(needed_s=self.now_s()))
        self.branches.append(running)
        self._share.begin()
        self._tasks.start_soon(self._run, running, name=f"stretto branch {spec.id}")
        return running

    async def complete(self, run: Awaitable[StrategyResult | None]) -> StrategyResult:
        """Run a strategy until it and all branches have ended, at most a moment past the deadline.

        The branches end at the deadline by themselves, and most strategies then write what they have.
        """
        result: StrategyResult | None = None
        with anyio.CancelScope(deadline=self._until + _AFTER_DEADLINE_S) as scope:
            result = await run
            for running in self.branches:
                await running.ended()
        self.overran = scope.cancelled_caught
        return result or StrategyResult()

    def now_s(self) -> float:
        """Return the seconds since the request arrived."""
        return time.perf_counter() - self._began

    def _free_id(self, wanted: str) -> str:
        free = wanted
        while free in self._ids:
            self._repeated[wanted] += 1
            times = self._repeated[wanted]
            free = f"{wanted}-again" if times == 1 else f"{wanted}-again-{times}"
        self._ids.add(free)
        return free

    async def _run(self, running: RunningBranch) -> None:
        try:
            with branch_span(running.spec.id, running.spec.kind, running.spec.name) as span:
                branch = await self._run_to_its_end(running)
                note_branch(span, branch)
        except Exception as error:  # noqa: BLE001 - of the caller's code; `open_runner` raises it outside of its task group
            self.failure = self.failure or error
            self._tasks.cancel_scope.cancel()
            return
        await self.announce(BranchFailed(branch=branch) if running.exception else BranchFinished(branch=branch))

    async def _run_to_its_end(self, running: RunningBranch) -> Branch:
        try:
            with running.scope as scope:
                own = anyio.current_time() + running.spec.deadline_s - self.now_s()
                scope.deadline = min(scope.deadline, self._until, own)
                for parent in running.spec.after:
                    await parent.ended()
                    running.progress.needed_s = self.now_s()
                if running.spec.until is not None:
                    await running.spec.until()
                    running.progress.needed_s = self.now_s()
                await checkpoint_if_cancelled()
                if running.spec.work is not None:
                    await running.spec.work(running)
                elif not await self._attempts.take_given(running):
                    await self._write_in_slot(running)
            if scope.cancelled_caught and running.exception is None:
                error = self.too_late(min(running.spec.deadline_s, self._deadline_s))
                running.outcome = Outcome("deadline", error)
        finally:
            self._share.end()
            self._calls.settle(running)
            branch = running.end(self.now_s())
            running.spec.on_end(running)
        return branch

    async def _write_in_slot(self, running: RunningBranch) -> None:
        """Have a model write a branch once a slot is free and an earlier call has filled the cache."""
        backend = running.spec.backend or self._backend
        await self._going_ahead.wait(running, self.target_of(backend))
        slots = self._slots.of(backend)
        try:  # waiting even for a free slot lets all other tasks run first
            slots.acquire_nowait()
        except anyio.WouldBlock:
            await slots.acquire()
        try:
            await checkpoint_if_cancelled()  # the branch that had the slot may have ended this one
            await self._attempts.write(running)
        finally:
            slots.release()


@asynccontextmanager
async def open_runner(make: Callable[[TaskGroup], Runner]) -> AsyncIterator[Runner]:
    """Open a runner for the branches of a request. Leaving it ends every branch that still runs.

    Raises what its body or the caller's code in a branch raises, never an exception group around it.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        runner = make(tasks)
        try:
            yield runner
        except Exception as error:  # noqa: BLE001 - raised again below, outside the task group that would wrap it
            failure = error
        finally:
            if not runner.done:
                tasks.cancel_scope.cancel()
    failure = runner.failure or failure
    if failure is not None:
        raise failure


class Slots:
    """Limits the concurrent calls of each backend separately: a slow one takes no slots of another.

    ``share``: what the answer uses of its ``backend``, already counted.
    """

    def __init__(self, request: Request, backend: Backend, share: LoadShare) -> None:
        self._request = request
        self._limits: dict[int, CallLimits] = {id(backend): share.limits}
        self._limiters: dict[int, anyio.CapacityLimiter] = {}

    def limits(self, backend: Backend) -> CallLimits:
        """Return the limits on a backend when this answer began; its own calls do not count against it."""
        if id(backend) not in self._limits:
            self._limits[id(backend)] = CallLimits.of(backend, self._request)
        return self._limits[id(backend)]

    def of(self, backend: Backend) -> anyio.CapacityLimiter:
        """Return the limiter that a call to a backend waits for."""
        if id(backend) not in self._limiters:
            self._limiters[id(backend)] = anyio.CapacityLimiter(self.limits(backend).now)
        return self._limiters[id(backend)]
