"""Asks for a branch until it is written: first as it is, then in another way, and by the next model where one fails.

Repeating the same call is the backends' business.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace
from itertools import count

from stretto.answer import REFUSALS, Usage
from stretto.backends.asking import ask_servers
from stretto.backends.base import Backend, ModelRequest
from stretto.errors import BackendError, BudgetExceededError, StrettoError
from stretto.events import BranchDelta, BranchStarted, FallbackStarted
from stretto.generation_options import GenerationOptions
from stretto.request import Message
from stretto.strategies.answer_limit import NoRoomError
from stretto.strategies.branch import RunningBranch, Writing
from stretto.strategies.branch_calls import BranchCalls, Call, Emit
from stretto.strategies.fallback import Fallback, Succession, alone
from stretto.strategies.harm.watch import SpoiledError, is_enough
from stretto.strategies.shortfall import called


class Attempts:
    """Makes the calls of the branches of one answer.

    Args:
        backend: that of the route.
        fallback: who goes on where it fails.
        calls: sends them.
        announce: hands an event to the reader.
        warn: adds a warning to the answer.
        now_s: seconds since the request arrived.
        addressing: a context in which prompts are made for a backend.
    """

    def __init__(
        self,
        backend: Backend,
        fallback: Fallback,
        calls: BranchCalls,
        *,
        announce: Emit,
        warn: Callable[[str], None],
        now_s: Callable[[], float],
        addressing: Callable[[Backend], AbstractContextManager[None]],
    ) -> None:
        self._backend, self._fallback, self._calls = backend, fallback, calls
        self._announce, self._warn, self._now_s = announce, warn, now_s
        self._addressing = addressing

    async def write(self, running: RunningBranch) -> None:
        """Write a branch, or leave what it failed with as its exception.

        What is no `StrettoError` is a mistake in the caller's strategy or backend, which no second call mends: raised.
        """
        spec = running.spec
        await self._start(running)
        if spec.written is not None and spec.written(running):
            await self._announce(BranchDelta(branch_id=spec.id, text=running.text))
        else:
            await self._ask(running)

    async def _ask(self, running: RunningBranch) -> None:
        """Make calls until it is written."""
        spec = running.spec
        successors = () if spec.backend is not None and spec.successors is None else spec.successors
        succession = self._fallback.succession(spec.backend or self._backend, successors)
        first = succession.first()
        await self._begin(running, succession, first, "")
        backend: Backend | None = first
        again = useless = begins_refused = False  # asked in another way; what was received is of no use
        for attempt in count(1):
            running.exception = None
            refused = spoiled = False
            try:
                if backend is not None and backend is not running.writers[-1].backend:
                    await ask_servers((backend,))
                if backend is None or (asked := self._asked(running, backend, again=again, useless=useless)) is None:
                    running.exception = succession.error
                    return
                prompt, received = asked
                await self._begin(running, succession, backend, received)
                if attempt > 1 and running.text and spec.restart_marker:
                    running.write(spec.restart_marker, self._now_s())
                after = running.text if received else ""
                call = Call(prompt, self._options(running), attempt, after, replaceable=succession.has_another)
                running.finish_reason = await self._calls.send(running, call)
            except NoRoomError as error:
                running.exception, running.finish_reason = error, "length"
                return
            except BudgetExceededError as error:
                running.exception, running.finish_reason = error, "budget"
                running.writers[-1].error = str(error)
                if attempt > 1:  # what stopped the first call says more than that there was no second one
                    running.exception, running.finish_reason = succession.error, "error"
                return
            except SpoiledError as error:
                if self._kept_so_far(running, error):
                    return
                spoiled = True
            except StrettoError as error:
                self._calls.count(running, getattr(error, "usage", None) or Usage())
                running.exception, running.finish_reason = error, "error"
            else:
                refused = running.finish_reason in REFUSALS and not spec.allow_refusal
                if not self._failed(running):
                    running.writers[-1].error = None
                    self._tell_refused_beginning(running, begins_refused)
                    return
            self._calls.estimate(running)
            begins_refused = refused and not again and self._leave_refusal(running)
            useless = refused or spoiled
            backend, again = self._next(running, succession, again=again, of_its_text=useless)

    async def take_given(self, running: RunningBranch) -> bool:
        """Take the text that another branch's call writes for this one; return whether nothing is left to ask for."""
        given = running.spec.given
        if given is None:
            return False
        await self._start(running)
        running.writers.append(Writing(running.spec.backend or self._backend))
        try:
            async with aclosing(given()) as pieces:
                await self._calls.take(running, pieces)
        except SpoiledError as error:
            return self._kept_so_far(running, error)
        except StrettoError:
            return False
        return bool(running.text.strip())

    async def _start(self, running: RunningBranch) -> None:
        if running.started_s is None:
            running.started_s = self._now_s()
            spec = running.spec
            await self._announce(BranchStarted(branch_id=spec.id, kind=spec.kind, title=spec.title))

    def _next(
        self, running: RunningBranch, succession: Succession, *, again: bool, of_its_text: bool
    ) -> tuple[Backend | None, bool]:
        """The model that is asked after a failure, and whether it is asked once more; ``None``: none is.

        ``of_its_text``: the call was answered, with a refusal or with text that is of no use. Then no other model is.
        """
        failed, error = running.writers[-1], running.exception
        assert error is not None  # noqa: S101 - whatever failed has left it; for the type checker
        failed.error = str(error)
        succession.failed(failed.backend, error, wrote=bool(running.text))
        if running.calls or running.others:  # a warning has reported it; no second call could go on with these
            return None, again
        if isinstance(error, BackendError) and not of_its_text:
            successor = succession.next(failed.backend, error)
            if successor is not None:
                return successor, again
        return (None, again) if again else (succession.once_more(), True)

    def _asked(
        self, running: RunningBranch, backend: Backend, *, again: bool, useless: bool
    ) -> tuple[ModelRequest, str] | None:
        """What a model is asked, and the text that it is to go on with; ``None``: there is no way to go on."""
        spec = running.spec
        received = "" if useless else running.text
        with self._addressing(backend):
            prompt = spec.fallback_prompt(received) if again or received.strip() else spec.prompt()
            if prompt is not None and received.strip() and backend.capabilities.continues and not spec.restart_marker:
                prompt = going_on(spec.prompt(), received) or prompt
            if prompt is None and not again and running.take_back():
                prompt, received = spec.prompt(), ""
        if prompt is None:
            return None
        if backend is not self._backend and not backend.capabilities.reads_history:
            prompt = alone(prompt)
        return prompt, received if received.strip() else ""

    async def _begin(self, running: RunningBranch, succession: Succession, backend: Backend, received: str) -> None:
        """Make a model the one that writes, and tell of it where it takes over."""
        if running.writers and running.writers[-1].backend is backend:
            return
        start = len(running.text)
        running.writers.append(Writing(backend, start))
        if succession.failures:
            failed = succession.failures[-1]
            self._fallback.took_over(running, succession.failures, kept=bool(received))
            await self._announce(
                FallbackStarted(
                    branch_id=running.spec.id,
                    model=backend.name,
                    failed=failed.backend.name,
                    error=str(failed.error),
                    kept=start,
                )
            )

    def _options(self, running: RunningBranch) -> GenerationOptions:
        """The options of the branch, without the decoding method and the adapter that are another model's."""
        options, other = running.spec.options, running.writers[-1].backend is not self._backend
        own = options.decoding is not None or options.adapter is not None
        return options.model_copy(update={"decoding": None, "adapter": None}) if other and own else options

    def _leave_refusal(self, running: RunningBranch) -> bool:
        """Discard a refusal; where it had been shown already, leave it and go on below it, and return True."""
        if not running.text.strip() or running.take_back():
            return False
        running.write("\n\n", self._now_s())
        return True

    def _tell_refused_beginning(self, running: RunningBranch, begins_refused: bool) -> None:
        if begins_refused:
            self._warn(
                f"{called(running)} begins with a refusal that had been shown already; "
                "the model wrote the rest when asked again."
            )

    def _kept_so_far(self, running: RunningBranch, spoiled: SpoiledError) -> bool:
        """Keep a part as it is before the place where it is spoiled, if somebody has seen it or it says enough."""
        if running.spec.standalone or running.seen or is_enough(running.text, str(spoiled)):
            running.exception, running.reported = None, True
            running.finish_reason = "length" if running.spec.standalone else "stop"
            self._warn(f"{called(running)} was cut where {spoiled}.")
            return True
        running.take_back()
        running.exception, running.finish_reason = spoiled, "error"
        return False

    def _failed(self, running: RunningBranch) -> bool:
        """Whether a call that ended in good order gave nothing to use; its exception says why."""
        name = running.writers[-1].backend.name
        if running.finish_reason in REFUSALS:
            if running.spec.allow_refusal:
                return False
            message = "The model refused to write this part."
        elif running.text.strip() or running.calls or running.spec.allow_empty:
            return False
        else:
            message = f"{name} returned no text. Ask again, or try another model."
            running.finish_reason = "error"
        running.exception = BackendError(message, backend=name)
        return True


def going_on(prompt: ModelRequest, received: str) -> ModelRequest | None:
    """The first prompt, with what was received as a turn to go on with; ``None`` where it holds the whole answer.

    A weak model understands that better than words about an answer that broke off.
    """
    if prompt.messages[-1].role != "user" or prompt.response_schema is not None or prompt.response_regex is not None:
        return None
    begun = Message(role="assistant", content=received)
    return replace(prompt, messages=(*prompt.messages, begun), shared=0)
