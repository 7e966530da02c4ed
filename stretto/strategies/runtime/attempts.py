"""Request a branch until it is written: first as it is, then reworded, and from the next model when one fails.

Retrying the same call is up to the backends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from stretto.backends.base import Backend, ModelRequest, ask_servers
from stretto.backends.resilience.wrapper import Wrapper
from stretto.language.sentences import whole_until
from stretto.language.telling import language_of
from stretto.strategies.quality.text_guard import LowQualityTextError, is_enough
from stretto.strategies.runtime.answer_limit import NoRoomError
from stretto.strategies.runtime.branch import BranchWriter, Outcome, RunningBranch
from stretto.strategies.runtime.branch_calls import BranchCall, BranchCalls, Emit
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.fallback import Fallback, FallbackChain, alone
from stretto.strategies.runtime.shortfall import called
from stretto.values.answer import REFUSALS, Usage
from stretto.values.answer_warning import Warn
from stretto.values.errors import BackendError, BudgetExceededError, StrettoError
from stretto.values.events import BranchDelta, BranchStarted, FallbackStarted
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Message

_Came = Literal["enough", "failure", "refusal", "useless"]
"""The result of a call: nothing is left to ask for, or it failed, was refused, or its text is useless."""

_Continued = Literal["not", "in words", "own turn"]
"""Whether a call asked for the rest of a text: in the words of the prompt, or as an assistant turn to continue."""


@dataclass(frozen=True)
class _Way:
    """How a branch is asked for.

    Attributes:
        backend: the model that is asked.
        again: with a different prompt than the first time.
        useless: what was received cannot be used.
        refusal_shown: the text already contains a refusal, and continues below it.
    """

    backend: Backend
    again: bool = False
    useless: bool = False
    refusal_shown: bool = False


class Attempts:
    """Makes the calls of the branches of one answer."""

    def __init__(
        self,
        backend: Backend,
        fallback: Fallback,
        calls: BranchCalls,
        *,
        announce: Emit,
        warn: Warn,
        now_s: Callable[[], float],
        target_of: Callable[[Backend], PromptTarget],
    ) -> None:
        self._backend, self._fallback, self._calls = backend, fallback, calls
        self._announce, self._warn, self._now_s = announce, warn, now_s
        self._target_of = target_of

    async def write(self, running: RunningBranch) -> None:
        """Write a branch, or set its exception to what it failed with.

        Anything but a `StrettoError` is a bug in the caller's strategy or backend that no retry fixes, and is raised.
        """
        spec = running.spec
        await self._start(running)
        if spec.written is not None and spec.written(running):
            await self._announce(BranchDelta(branch_id=spec.id, text=running.text))
        else:
            await self._ask(running)

    async def _ask(self, running: RunningBranch) -> None:
        """Make calls until the branch is written."""
        spec = running.spec
        successors = () if spec.backend is not None and spec.successors is None else spec.successors
        chain = self._fallback.chain(spec.backend or self._backend, successors)
        first = _Way(chain.first())
        await self._begin(running, chain, first.backend, "")
        way: _Way | None = first
        attempt = 1
        while way is not None and (came := await self._call(running, chain, way, attempt)) != "enough":
            self._calls.estimate(running)
            shown = came == "refusal" and not way.again and self._leave_refusal(running)
            way = self._next(running, chain, again=way.again, came=came, refusal_shown=shown)
            attempt += 1

    async def _call(self, running: RunningBranch, chain: FallbackChain, way: _Way, attempt: int) -> _Came:
        """Make one call, and store its outcome in the branch."""
        try:
            answered = await self._send(running, chain, way, attempt)
        except NoRoomError as error:
            running.outcome = Outcome("length", error)
        except BudgetExceededError as error:
            running.writers[-1].error = str(error)
            # The error of the first call says more than the lack of a second one.
            running.outcome = Outcome("budget", error) if attempt == 1 else Outcome("error", chain.error)
        except LowQualityTextError as error:
            return "enough" if self._kept_so_far(running, error) else "useless"
        except StrettoError as error:
            self._calls.count(running, getattr(error, "usage", None) or Usage())
            running.outcome = Outcome("error", error)
            return "failure"
        else:
            if answered is not None:
                return self._judge(running, chain, way, *answered)
        return "enough"

    async def _send(
        self, running: RunningBranch, chain: FallbackChain, way: _Way, attempt: int
    ) -> tuple[str, _Continued] | None:
        """Send one call; return the text before it, and how the call continues it.

        Returns ``None`` if there was nothing to ask.
        """
        backend, reason = way.backend, running.finish_reason
        running.outcome = Outcome(reason)
        if backend is not running.writers[-1].backend:
            await ask_servers((backend,))
        if (prepared := self._prompt_for(running, way)) is None:
            running.outcome = Outcome(reason, chain.error)
            return None
        prompt, received = prepared
        await self._begin(running, chain, backend, received)
        if attempt > 1 and running.text and (marker := running.spec.restart_marker):
            running.write(marker, self._now_s())
        before = running.text
        after = before if received else ""
        call = BranchCall(prompt, self._options(running), attempt, after, replaceable=chain.has_another)
        running.outcome = await self._calls.send(running, call)
        own_turn = prompt.messages[-1].role == "assistant" and prompt.messages[-1].content == received
        return before, "not" if not received else "own turn" if own_turn else "in words"

    def _judge(
        self, running: RunningBranch, chain: FallbackChain, way: _Way, before: str, continued: _Continued
    ) -> _Came:
        """Judge the text of a call that ended normally, as a continuation of the text before it."""
        refused = running.finish_reason in REFUSALS
        running.outcome = self._judged(running, before, chain, continued)
        if running.exception is not None:
            return "refusal" if refused else "failure"
        running.writers[-1].error = None
        if way.refusal_shown:
            self._warn(
                f"{called(running)} begins with a refusal that had been shown already; "
                "the model wrote the rest when asked again.",
                "refusal",
                part=running.spec.id,
            )
        return "enough"

    async def take_given(self, running: RunningBranch) -> bool:
        """Take the text that another branch's call writes for this one; return whether the branch is complete."""
        given = running.spec.given
        if given is None:
            return False
        await self._start(running)
        running.writers.append(BranchWriter(running.spec.backend or self._backend))
        try:
            async with aclosing(given()) as pieces:
                if not await self._calls.take(running, pieces):
                    running.outcome = Outcome("length", limit="buffer")
                    return True
        except LowQualityTextError as error:
            return self._kept_so_far(running, error)
        except StrettoError:
            return False
        return bool(running.text.strip())

    async def _start(self, running: RunningBranch) -> None:
        if running.progress.started_s is None:
            running.progress.started_s = self._now_s()
            spec = running.spec
            await self._announce(BranchStarted(branch_id=spec.id, kind=spec.kind, **spec.about))

    def _next(
        self, running: RunningBranch, chain: FallbackChain, *, again: bool, came: _Came, refusal_shown: bool
    ) -> _Way | None:
        """Return how to ask for the branch after a failure; ``None``: not at all, and its error stays.

        A call that was answered, even with a refusal or useless text, is not passed to another model.
        """
        failed, error = running.writers[-1], running.exception
        assert error is not None  # noqa: S101 - every failure sets it; for the type checker
        failed.error = str(error)
        chain.failed(failed.backend, error, wrote=bool(running.text))
        successor: Backend | None = None
        if not (running.calls or running.others):  # a warning reports these; no second call could continue them
            if came == "failure" and isinstance(error, BackendError):
                successor = chain.next(failed.backend, error)
            if successor is None and not again:
                successor, again = chain.once_more(), True
        if successor is None:
            running.outcome = replace(running.outcome, error=chain.error)
            return None
        return _Way(successor, again, useless=came != "failure", refusal_shown=refusal_shown)

    def _prompt_for(self, running: RunningBranch, way: _Way) -> tuple[ModelRequest, str] | None:
        """Return the prompt for a model and the text to continue; ``None``: there is no way to continue.

        A call that failed and wrote nothing is not repeated unchanged: the backend's wrappers have retried it already.
        """
        spec, backend, again = running.spec, way.backend, way.again
        received, target = "" if way.useless else running.text, self._target_of(backend)
        prompt = spec.fallback_prompt(target, received) if again or received.strip() else spec.prompt(target)
        if prompt is not None and received.strip() and backend.capabilities.continues and not spec.restart_marker:
            prompt = going_on(spec.prompt(target), received) or prompt
        if prompt is None and not again and running.take_back():
            prompt, received = spec.prompt(target), ""
        if prompt is None:
            return None
        if backend is not self._backend and not backend.capabilities.reads_history:
            prompt = alone(prompt)
        repeated = isinstance(backend, Wrapper)
        if repeated and any(each.backend is backend and each.unanswered == prompt for each in running.writers):
            return None
        return prompt, received if received.strip() else ""

    async def _begin(self, running: RunningBranch, chain: FallbackChain, backend: Backend, received: str) -> None:
        """Make a model the writer of the branch, and report it if it takes over from another."""
        if running.writers and running.writers[-1].backend is backend:
            return
        start = len(running.text)
        running.writers.append(BranchWriter(backend, start))
        if chain.failures:
            failed = chain.failures[-1]
            self._fallback.took_over(running, chain.failures, kept=bool(received))
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
        """Return the options of the branch, without a decoding method or adapter that belongs to another model."""
        options, other = running.spec.options, running.writers[-1].backend is not self._backend
        own = options.decoding is not None or options.adapter is not None
        return options.model_copy(update={"decoding": None, "adapter": None}) if other and own else options

    def _leave_refusal(self, running: RunningBranch) -> bool:
        """Discard a refusal; if it was already shown, keep it, continue below it, and return True."""
        if not running.text.strip() or running.take_back():
            return False
        running.write("\n\n", self._now_s())
        return True

    def _kept_so_far(self, running: RunningBranch, spoiled: LowQualityTextError) -> bool:
        """Keep a part up to the spoiled position if it has been read already or says enough."""
        if running.spec.standalone or running.was_read or is_enough(running.text):
            running.outcome = Outcome("length" if running.spec.standalone else "stop", cut_by=spoiled.cut_by)
            if not running.reported:
                running.reported = True
                self._warn(f"{called(running)} was cut where {spoiled}.", "part_cut", part=running.spec.id)
            return True
        running.take_back()
        running.outcome = Outcome("error", spoiled, spoiled.cut_by)
        return False

    def _judged(self, running: RunningBranch, before: str, chain: FallbackChain, continued: _Continued) -> Outcome:
        """Return the outcome of a call that ended normally, with an error if it produced nothing usable.

        ``before``: the branch's text before the call. An empty continuation leaves the text cut off, even if the branch
        may be empty, unless the model ended its turn at once after a whole sentence.
        """
        spec, backend, outcome = running.spec, running.writers[-1].backend, running.outcome
        reason = outcome.reason
        if reason in REFUSALS and not spec.allow_refusal:
            who = "The model" if reason == "refusal" else "The filter of the model's server"
            message = f"{who} refused to write this part."
            return Outcome(reason, BackendError(message, backend=backend.name))
        if reason in REFUSALS or _says_something(running.text[len(before) :]) or running.calls:
            return outcome
        if continued == "not":
            complete = spec.allow_empty or _may_be_empty(running, another=chain.has_another)
        else:
            complete = continued == "own turn" and reason == "stop" and _is_whole(running.text)
        if complete:
            return outcome
        failed = "error" if reason == "stop" else reason
        if continued == "not":
            message = "returned no text. Ask again, or try another model."
            if reason in ("length", "budget"):
                message = "was cut by a limit of tokens before it wrote any text. Allow more."
            return Outcome(failed, BackendError(f"{backend.name} {message}", backend=backend.name))
        message = f"{backend.name} returned no text when asked for the rest."
        broken = next((each.error for each in chain.failures if each.backend is backend), None)
        if not isinstance(broken, BackendError):
            return Outcome(failed, BackendError(message, backend=backend.name))
        if message not in str(broken):
            broken.remark(message)
        return Outcome(failed, broken)


def _may_be_empty(running: RunningBranch, *, another: bool) -> bool:
    """Return whether an empty answer is acceptable: it began with a stop text, or reasoning used up its tokens.

    ``another``: another model can be asked, to which this one's limit does not apply.
    """
    by_its_limit = running.spec.options.max_tokens is not None or not another
    cut = running.finish_reason == "budget" or (running.finish_reason == "length" and by_its_limit)
    stopped = running.finish_reason == "stop" and bool(running.metadata.stop_text or running.spec.options.stop)
    return (running.spec.standalone or running.spec.version > 0) and (cut or stopped)


def _says_something(text: str) -> bool:
    """Return whether a text has any visible character."""
    return any(char.isprintable() and not char.isspace() for char in text)


def _is_whole(text: str) -> bool:
    """Return whether a text ends with a whole sentence, outside a code block."""
    stripped = text.rstrip()
    if sum(line.lstrip().startswith(("```", "~~~")) for line in stripped.splitlines()) % 2:
        return False
    return whole_until(stripped, language_of(stripped)) == len(stripped)


def going_on(prompt: ModelRequest, received: str) -> ModelRequest | None:
    """Return the first prompt with the received text as a turn to continue; ``None`` if that is the whole answer.

    Weak models follow that better than an explanation of an answer that broke off.
    """
    if prompt.messages[-1].role != "user" or prompt.response_schema is not None or prompt.response_regex is not None:
        return None
    begun = Message(role="assistant", content=received)
    return replace(prompt, messages=(*prompt.messages, begun), shared=0)
