"""Runs branches: bounded concurrency, deadline, budget, and nothing left behind on leaving.

A branch that fails is asked for once more in another way (retrying the same call is the backends'
business), then reported as failed; a failed branch never takes the others with it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from stretto.answer import REFUSALS, Branch, Choice, Decoding, FinishReason, TokenLogprob, Usage
from stretto.backends.allowance import Caller, allowed
from stretto.backends.base import (
    Backend,
    Capabilities,
    Chunk,
    CountsText,
    Measured,
    Prompt,
    ReportsLimits,
    Stages,
    measured_by,
)
from stretto.backends.chunk_check import what_is_wrong
from stretto.citation import Citation, PassageRecord
from stretto.errors import (
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    BudgetExceededError,
    DeadlineExceededError,
    ModelNotFoundError,
    StreamBrokenError,
    StrettoError,
)
from stretto.events import (
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    ChoiceDelta,
    Event,
    TextDelta,
    ToolCallPiece,
)
from stretto.prompts import Catalogue, Template
from stretto.request import Budget
from stretto.strategies.branch import NOT_TEXT, BranchSpec, FurtherChoice, Running, all_discarded
from stretto.strategies.call_record import CallRecord, recorded
from stretto.strategies.ledger import Ledger, Reservation
from stretto.strategies.merge import Merge
from stretto.surrogates import Mending, mend
from stretto.telemetry import branch_span, note_branch
from stretto.tool_calls import ToolCall, ToolCallDelta, ToolCallsSoFar

HOPELESS = (AuthenticationError, ModelNotFoundError, BreakerOpenError)  # asking in another way cannot help

Emit = Callable[[Event], Awaitable[None]]

_numbers = itertools.count(1)  # of answers


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
        accompanying: fields of the request's body that go with every call.
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
        self._number = next(_numbers)
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
        self.accompanying: Mapping[str, Any] = {}
        self.strategy = ""
        self.parsed: Any = None
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
        """What the backend has measured of its own speed, if it is a local one."""
        return measured_by(self._backend)

    def warn(self, text: str) -> None:
        """Say something in ``Answer.warnings``."""
        self.warnings.append(mend(text))

    def warn_once(self, text: str) -> None:
        """Say it, unless another branch has said the same."""
        if mend(text) not in self.warnings:
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
        with branch_span(running.spec.id, running.spec.kind, running.spec.title) as span:
            branch = await self._run_to_its_end(running)
            note_branch(span, branch)
        await self.announce(BranchFailed(branch=branch) if running.exception else BranchFinished(branch=branch))

    async def _run_to_its_end(self, running: Running) -> Branch:
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
                    f"The deadline passed after {self._deadline_s:g} s. Allow more with deadline_s."
                )
                running.finish_reason = "deadline"
        finally:
            self._account(running)
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
                running.finish_reason = await self._call(running, prompt, attempt=2 if again else 1)
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
                refused = running.finish_reason in REFUSALS and not spec.accepts_refusal
                if not self._failed(running):
                    if begins_refused:
                        self.warn(
                            f"{spec.called or repr(spec.title)} begins with a refusal that had been shown already; "
                            "the model wrote the rest when asked again."
                        )
                    return
            first = running.exception
            begun = bool(running.calls or running.others)  # told already, and not to be told twice
            self._estimate(running)
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

    async def _call(self, running: Running, prompt: Prompt, *, attempt: int) -> FinishReason:
        options = running.spec.options
        if self.accompanying:
            prompt = replace(prompt, extra={**self.accompanying, **prompt.extra})
        tokens = await self._backend.count_tokens(prompt) if self.ledger.budget.max_tokens_total else 0
        most, reservation = self.ledger.reserve(tokens, options.max_tokens)
        options = options.model_copy(update={"max_tokens": most})
        if running.spec.kind in NOT_TEXT:  # what they write is not the answer
            options = options.model_copy(update={"logprobs": None})
        running.unreported = tokens or estimate(prompt)
        failure: Exception | None = None
        caller = Caller(self._number, running.spec.id, running.spec.kind, running.spec.title)
        try:
            with (
                allowed(reservation, caller),
                recorded(self._backend.name, running.spec, attempt, prompt) as record,
            ):
                async with self._backend.stream(prompt, options) as chunks:
                    try:
                        record.finish_reason = await self._read(running, chunks, reservation, record)
                    except Exception as error:  # noqa: BLE001 - raised below: a task group of the backend would wrap it
                        failure = error
                if failure is not None:
                    raise failure
                if record.finish_reason is None:
                    raise StreamBrokenError(
                        f"{self._backend.name} ended its answer without a finish reason: it was cut off on the way. "
                        "Ask again; a complete stream ends with a Chunk that carries finish_reason.",
                        backend=self._backend.name,
                    )
        finally:
            self.ledger.settle(reservation)
        if record.finish_reason == "length" and most is not None and most != running.spec.options.max_tokens:
            return "budget"  # the budget left less room than the call would have had
        return record.finish_reason

    async def _read(
        self, running: Running, chunks: AsyncIterator[Chunk], reservation: Reservation, record: CallRecord
    ) -> FinishReason | None:
        """Read a stream into its branch; the reason for its end, ``None`` where it broke off."""
        reason: FinishReason | None = None
        mending = Mending()
        async for chunk in chunks:
            if wrong := what_is_wrong(chunk):
                raise BackendError(f"{self.model} yielded a chunk whose {wrong}.", backend=self.model)
            record.heard(chunk)
            if chunk.usage:
                self._count(running, chunk.usage, reservation)
            if chunk.decoding:
                running.decoding = (running.decoding or Decoding()) + chunk.decoding
            if chunk.stages:
                running.stages = _since(chunk.stages, self._began)
            for warning in chunk.warnings:
                self.warn_once(warning)
            if chunk.choice:
                await self._take_further(running.further(chunk.choice), chunk)
                continue
            running.logprobs += map(_mended, chunk.logprobs)
            if text := mending.feed(chunk.text):
                if not await self._take(running, text):
                    return "length"
                await checkpoint()  # who reads this branch goes before the next chunk, if there is one
            for delta in chunk.tool_calls:
                await running.caught_up()
                await self._tell_call(running.calls, delta, running.spec.choice)
            running.thoughts += chunk.thoughts
            reason = chunk.finish_reason or reason
        if text := mending.finish():
            await self._take(running, text)
        return reason

    async def _take(self, running: Running, text: str) -> bool:
        """Take new text of a branch; False once its buffer is full."""
        fits = running.write(text, self.now_s())
        await self.announce(BranchDelta(branch_id=running.spec.id, text=text))
        if running.spec.choice:
            await self.announce(ChoiceDelta(choice=running.spec.choice, text=text))
        return fits

    async def _take_further(self, further: FurtherChoice, chunk: Chunk) -> None:
        """Take in what belongs to a further answer of the same call."""
        further.logprobs += map(_mended, chunk.logprobs)
        text = further.mending.feed(chunk.text)
        if chunk.finish_reason:
            further.finish_reason = chunk.finish_reason
            text += further.mending.finish()
        if text:
            further.pieces.append(text)
            await self.announce(ChoiceDelta(choice=chunk.choice, text=text))
        for delta in chunk.tool_calls:
            await self._tell_call(further.calls, delta, chunk.choice)

    async def _tell_call(self, calls: ToolCallsSoFar, delta: ToolCallDelta, choice: int) -> None:
        await self.announce(ToolCallPiece(choice=choice, delta=calls.add(delta)))

    def _count(self, running: Running, usage: Usage, reservation: Reservation | None = None) -> None:
        if usage.calls:
            if not usage.total_tokens and running.text:  # a stream that broke off had no time to tell
                usage += Usage(prompt_tokens=running.unreported, completion_tokens=self._unreported_text(running))
            running.unreported = 0
        running.usage += usage
        self.ledger.add(usage, reservation)

    def _estimate(self, running: Running) -> None:
        """Count a call that was cut short, and so never reported, by what was sent and received."""
        if running.unreported:
            written = self._unreported_text(running)
            self._count(running, Usage(prompt_tokens=running.unreported, completion_tokens=written, calls=1))

    @staticmethod
    def _unreported_text(running: Running) -> int:
        """Tokens of the text that no usage has told of, estimated."""
        return max(0, math.ceil(len(running.text) / 4) - running.usage.completion_tokens)

    def _account(self, running: Running) -> None:
        """Settle the account of an ended branch."""
        self._estimate(running)
        if running.discarded:
            running.usage = all_discarded(running.usage)


def _mended(score: TokenLogprob) -> TokenLogprob:
    top = tuple((mend(token), logprob) for token, logprob in score.top)
    return TokenLogprob(token=mend(score.token), logprob=score.logprob, top=top)


def _since(stages: Stages, began: float) -> Stages:
    """The same, in seconds since the request arrived."""
    return Stages(**{name: None if at is None else at - began for name, at in asdict(stages).items()})


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
