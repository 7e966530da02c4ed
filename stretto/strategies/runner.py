"""Runs branches: bounded concurrency, deadline, budget, and nothing left behind on leaving.

A branch that fails is asked for once more in another way (retrying the same call is the backends'
business), then reported as failed; a failed branch never takes the others with it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from stretto.abilities import abilities_of
from stretto.answer import REFUSALS, Branch, Choice, FinishReason, Usage
from stretto.backends.base import (
    Backend,
    Capabilities,
    CountsText,
    Measured,
    ReportsLimits,
    measured_by,
    with_calls_bounded,
)
from stretto.citation import Citation, PassageRecord
from stretto.errors import (
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    BudgetExceededError,
    DeadlineExceededError,
    ModelNotFoundError,
    StalledError,
    StrettoError,
)
from stretto.events import (
    BranchFailed,
    BranchFinished,
    BranchStarted,
    TextDelta,
)
from stretto.foundation.surrogates import mend
from stretto.local_engine.drafting.step_cost import CostTable
from stretto.prompts import POCKET, Catalogue, Template
from stretto.request import Budget
from stretto.router.seen_speed import rates
from stretto.router.standing import standing_of
from stretto.strategies.answer_limit import AnswerLimit, NoRoomError
from stretto.strategies.branch import BranchSpec, RunningBranch
from stretto.strategies.branch_calls import BranchCalls, Emit
from stretto.strategies.harm.phrases import Phrases, PhraseSearch
from stretto.strategies.harm.screen import Screen
from stretto.strategies.harm.watch import SpoiledError, is_enough
from stretto.strategies.harm.words import words_of
from stretto.strategies.ledger import Ledger
from stretto.strategies.merge import Merge
from stretto.telemetry import branch_span, note_branch
from stretto.tool_calls import ToolCall

_AFTER_DEADLINE_S = 1.0
HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # asking in another way cannot help


class Runner:
    """What a strategy works with: it starts branches, adds them to the merge, and warns. Opened by `open_runner`.

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
        extra: for ``Answer.extra``.
        choices: for ``Answer.choices``.
        ends_as: how the answer ends by the strategy's own judgement, where no branch ends worse.
        wrote: the strategy wrote the answer itself, so it does not fail with its branches.
        sent: the sentences of the prompt templates that were sent for this answer; none of them may stand in it.
        users: the texts of the request, which may stand in the answer whatever the templates say.
        language: of the question.
        announce: hands an event to the reader.
        failure: what code of the caller's raised in a branch: it ends the answer, and reaches the caller as it is.
        overran: the deadline ended the strategy.
    """

    users: tuple[str, ...] = ()
    language = "en"

    def __init__(
        self,
        tasks: TaskGroup,
        backend: Backend,
        emit: Emit,
        *,
        templates: Catalogue,
        budget: Budget,
        began: float,
        until: float,
        deadline_s: float,
        max_tokens: int | None = None,
        prompt_family: str | None = None,
        concurrent_points: int | None = None,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._templates = templates
        self._family = prompt_family
        self._began = began
        self._until = until
        self._deadline_s = deadline_s
        self._at_once = concurrent_points
        self._limiter = anyio.CapacityLimiter(self.capabilities.concurrent_calls)
        self.announce = emit
        self.ledger = Ledger(budget)
        self.branches: list[RunningBranch] = []
        self.warnings: list[str] = []
        self.citations: tuple[Citation, ...] = ()
        self.passages: tuple[PassageRecord, ...] = ()
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.thoughts: tuple[Mapping[str, Any], ...] = ()
        self.extra: Mapping[str, Any] = {}
        self.choices: tuple[Choice, ...] = ()
        self.ends_as: FinishReason | None = None
        self.wrote = False
        self.strategy = ""
        self.parsed: Any = None
        self.failure: Exception | None = None
        self.overran = False
        self._ids: set[str] = set()
        self._repeated: Counter[str] = Counter()
        self._warned: set[str] = set()
        self._calls = BranchCalls(backend, self.ledger, emit, self.warn_once, began)
        self._calls.limit = AnswerLimit(max_tokens)
        self.sent = Phrases()
        self._own_words: str | None = None
        self.merge = Merge(lambda text: emit(TextDelta(text=text)), self.now_s, self.screen)
        tasks.start_soon(self.merge.run)

    @property
    def model(self) -> str:
        """The name of this answer's backend."""
        return self._backend.name

    @property
    def capabilities(self) -> Capabilities:
        """What the backend of this answer can do, with the family of prompts that was named for it."""
        able = with_calls_bounded(self._backend.capabilities, self._at_once)
        if self._family is None or able.prompt_family == POCKET:  # trained on its own prompts
            return able
        return replace(able, prompt_family=self._family)

    @property
    def done(self) -> bool:
        """Whether the text is merged and every branch has ended."""
        return self.merge.finished and all(running.branch is not None for running in self.branches)

    def template(self, name: str) -> Template:
        """The prompt template of that name for this backend's family of models."""
        found = self._templates.get(name, self.capabilities.prompt_family, language=self.language)
        self.sent.add(found.wordings)
        return found

    def leaks(self) -> PhraseSearch:
        """Looks for words of the prompts that were sent, but for those that the user wrote too."""
        return PhraseSearch(self.sent, self._is_own)

    def screen(self, found: Callable[[str], bool] | None = None) -> Screen:
        """What keeps words of the prompts out of a text, also of those that are sent while it comes.

        ``found`` is called instead of the warning; it returns whether the text ends there.
        """
        return Screen([("leak", self.leaks())], found or self._leaked)

    def clean(self, text: str) -> str:
        """A whole text without words of the prompts."""
        screen = self.screen()
        return screen.feed(text) + screen.finish()

    def _is_own(self, words: Sequence[str]) -> bool:
        if self._own_words is None:
            self._own_words = " ".join(word for text in self.users for word in ("", *words_of(text), ""))
        return f" {' '.join(words)} " in self._own_words

    def _leaked(self, _: str) -> bool:
        self.warn_once("Words of the library's own prompt were left out of the answer.")
        return False

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

    def cost_of(self, streams: int) -> float | None:
        """How many times as long a token takes while so many calls run; ``None`` where that was not measured."""
        measured, kept = self.measured(), abilities_of(self._backend)
        table = measured.step_ms if measured is not None else {}
        if not table:
            seen = rates(self._backend, {} if kept is None else kept.tokens_per_s)
            table = {number: 1000 / rate for number, rate in seen.items()}
        if 1 not in table or max(table) < 2:
            return None
        cost = CostTable(table)
        return cost(streams) / cost(1)

    def note_skeleton(self, *, held: bool) -> None:
        """Note whether this model held an outline and its points in the answer's language."""
        standing_of(self._backend, self.language).note(held=held)

    @contextmanager
    def until_deadline(self) -> Iterator[None]:
        """Bound work of the strategy itself by the deadline. Raises `DeadlineExceededError`."""
        with anyio.CancelScope(deadline=self._until) as scope:
            yield
        if scope.cancelled_caught:
            raise self.too_late()

    def too_late(self) -> DeadlineExceededError:
        """Make the error for what the deadline has ended."""
        return DeadlineExceededError(f"The deadline passed after {self._deadline_s:g} s. Allow more with deadline_s.")

    def send_along(self, fields: Mapping[str, Any]) -> None:
        """Send these fields of the request's body with every call."""
        self._calls.accompanying = fields

    def warn(self, text: str) -> None:
        """Add a sentence to ``Answer.warnings``."""
        self.warnings.append(mend(text))
        self._warned.add(mend(text))

    def warn_once(self, text: str) -> None:
        """Add a sentence to ``Answer.warnings``, unless it is there already."""
        if mend(text) not in self._warned:
            self.warn(text)

    def start(self, spec: BranchSpec) -> RunningBranch:
        """Start a branch in the background. Its id gets an ending where another branch has the same one."""
        spec = replace(spec, id=self._free_id(spec.id))
        running = RunningBranch(spec, needed_s=self.now_s())
        self.branches.append(running)
        self._tasks.start_soon(self._run, running, name=f"stretto branch {spec.id}")
        return running

    async def complete(self, run: Awaitable[None]) -> None:
        """Run a strategy until it and all branches have ended; no longer than a moment beyond the deadline.

        The branches end at the deadline by themselves, and most strategies then write what is there.
        """
        with anyio.CancelScope(deadline=self._until + _AFTER_DEADLINE_S) as scope:
            await run
            for running in self.branches:
                await running.ended()
        self.overran = scope.cancelled_caught

    def now_s(self) -> float:
        """Seconds since the request arrived."""
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
            with branch_span(running.spec.id, running.spec.kind, running.spec.title) as span:
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
                running.exception = self.too_late()
                running.finish_reason = "deadline"
        finally:
            self._calls.settle(running)
            branch = running.end(self.now_s())
            running.spec.on_end(running)
        return branch

    async def _generate(self, running: RunningBranch) -> None:
        """Ask, and once more in another way if that fails.

        What is no `StrettoError` is a mistake in the caller's strategy or backend, which no second call mends: raised.
        """
        spec = running.spec
        running.started_s = self.now_s()
        await self.announce(BranchStarted(branch_id=spec.id, kind=spec.kind, title=spec.title))
        first: StrettoError | None = None
        begun = refused = begins_refused = spoiled = False
        for again in (False, True):
            running.exception = None
            try:
                received = "" if refused or spoiled else running.text
                prompt = None if again and begun else spec.fallback_prompt(received) if again else spec.prompt()
                if prompt is None:
                    running.exception = first
                    return
                if again and running.text and spec.restart_marker:
                    running.write(spec.restart_marker, self.now_s())
                running.finish_reason = await self._calls.send(running, prompt, attempt=2 if again else 1)
            except NoRoomError as error:
                running.exception, running.finish_reason = error, "length"
                return
            except BudgetExceededError as error:
                # What stopped the first call says more than that there was no second one.
                running.exception, running.finish_reason = first or error, "error" if first else "budget"
                return
            except SpoiledError as error:
                if self._kept_so_far(running, error):
                    return
                spoiled = True
            except StrettoError as error:
                self._calls.count(running, getattr(error, "usage", None) or Usage())
                refused_again = first is not None and isinstance(error, BreakerOpenError)  # as above
                running.exception, running.finish_reason = first if refused_again else error, "error"
                if isinstance(error, HOPELESS) or _is_late(error, running):
                    return
            else:
                refused = running.finish_reason in REFUSALS and not spec.allow_refusal
                if not self._failed(running):
                    self._tell_refused_beginning(running, begins_refused)
                    return
            first = running.exception
            begun = bool(running.calls or running.others)  # a warning has reported it already
            self._calls.estimate(running)
            begins_refused = refused and not again and self._leave_refusal(running)

    def _leave_refusal(self, running: RunningBranch) -> bool:
        """Discard a refusal; where it had been shown already, leave it and go on below it, and return True."""
        if not running.text.strip() or running.take_back():
            return False
        running.write("\n\n", self.now_s())
        return True

    def _tell_refused_beginning(self, running: RunningBranch, begins_refused: bool) -> None:
        if begins_refused:
            self.warn(
                f"{running.spec.label or repr(running.spec.title)} begins with a refusal that had been shown already; "
                "the model wrote the rest when asked again."
            )

    def _kept_so_far(self, running: RunningBranch, spoiled: SpoiledError) -> bool:
        """Keep a part as it is before the place where it is spoiled, if somebody has seen it or it says enough."""
        if running.spec.standalone or running.seen or is_enough(running.text):
            running.exception, running.reported = None, True
            running.finish_reason = "length" if running.spec.standalone else "stop"
            self.warn(f"{running.spec.label or repr(running.spec.title)} was cut where {spoiled}.")
            return True
        running.take_back()
        running.exception, running.finish_reason = spoiled, "error"
        return False

    def _failed(self, running: RunningBranch) -> bool:
        """Whether a call that ended in good order gave nothing to use; its exception says why."""
        if running.finish_reason in REFUSALS:
            if running.spec.allow_refusal:
                return False
            message = "The model refused to write this part."
        elif running.text.strip() or running.calls or running.spec.allow_empty:
            return False
        else:
            message = f"{self._backend.name} returned no text. Ask again, or try another model."
            running.finish_reason = "error"
        running.exception = BackendError(message, backend=self._backend.name)
        return True


def _is_late(error: StrettoError, running: RunningBranch) -> bool:
    """Whether a slow server has written nothing yet: any other call would begin at the end of its queue."""
    return isinstance(error, StalledError) and not error.transient and not running.text


@asynccontextmanager
async def open_runner(
    backend: Backend,
    emit: Emit,
    *,
    templates: Catalogue,
    budget: Budget,
    began: float,
    deadline_s: float | None = None,
    max_tokens: int | None = None,
    prompt_family: str | None = None,
    concurrent_points: int | None = None,
) -> AsyncIterator[Runner]:
    """Open a place to run branches in. Leaving it ends every branch that still runs.

    ``began``: `time.perf_counter` at the arrival of the request; ``max_tokens``: of the whole answer. Raises what its
    body raises, or the caller's code in a branch, never an exception group around it.
    """
    deadline_s = math.inf if deadline_s is None else deadline_s
    until = anyio.current_time() + began + deadline_s - time.perf_counter()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        runner = Runner(
            tasks,
            backend,
            emit,
            templates=templates,
            budget=budget,
            began=began,
            until=until,
            deadline_s=deadline_s,
            max_tokens=max_tokens,
            prompt_family=prompt_family,
            concurrent_points=concurrent_points,
        )
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
