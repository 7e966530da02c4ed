"""Tries a call again after a passing failure. The only place of the library that retries calls."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from stretto.answer import Usage
from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.base import Backend, Chunk, Prompt
from stretto.backends.failures import charge, usage_of
from stretto.backends.waiting import why_not_wait
from stretto.backends.wrapper import Replay, Wrapper, open_to_first_text
from stretto.errors import BackendError
from stretto.request import GenerationOptions

_log = logging.getLogger(__name__)


class Retry(Wrapper):
    """Repeats a call that failed before its first text, if the failure is ``transient``.

    After the first text a repetition would contradict what was read, so the error goes up to who
    can go on in another way. Waits are exponential with full jitter (Brooker, "Exponential Backoff
    and Jitter"), on top of what the server asks for (``retry_after_s``). A wait beyond the deadline of
    the calling task, or beyond ``longest_pause_s``, is not begun, nor a call beyond the budget: the error is
    raised at once and says so.

    Args:
        backend: what to call.
        attempts: calls at most, the first one included.
        first_wait_s: upper bound of the first wait; doubled with each attempt.
        longest_wait_s: upper bound of all waits that the server did not ask for.
        longest_pause_s: upper bound of those that it did.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        attempts: int = 4,
        first_wait_s: float = 0.5,
        longest_wait_s: float = 8.0,
        longest_pause_s: float = 120.0,
    ) -> None:
        super().__init__(backend)
        self._attempts = stop_after_attempt(attempts)
        self._longest_pause_s = longest_pause_s
        self._jitter = wait_random_exponential(multiplier=first_wait_s, max=longest_wait_s)

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start a generation; returns with its first text at hand."""
        async with AsyncExitStack() as stack:
            yield await self._begin(stack, prompt, options)

    async def _begin(self, stack: AsyncExitStack, prompt: Prompt, options: GenerationOptions) -> Replay:
        spent = Usage()

        def account(state: RetryCallState) -> None:
            nonlocal spent
            error = _error_of(state)
            spent += usage_of(error) + Usage(retries=1)
            count_repetition()
            _log.info("attempt %d failed, next in %.2f s: %s", state.attempt_number, state.upcoming_sleep, error)

        retrying = AsyncRetrying(
            stop=self._must_stop,
            wait=self._wait_s,
            retry=retry_if_exception(lambda error: isinstance(error, BackendError) and error.transient),
            sleep=anyio.sleep,
            before_sleep=account,
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    async with AsyncExitStack() as trial:
                        chunks = await open_to_first_text(trial, self.inner, prompt, options)
                        stack.push_async_exit(trial.pop_all())
                        return Replay([Chunk(usage=spent)], chunks) if spent.retries else chunks
        except BackendError as error:
            charge(error, spent)
            raise
        raise AssertionError  # tenacity returns from the loop above or raises

    def _must_stop(self, state: RetryCallState) -> bool:
        error = _error_of(state)
        if self._attempts(state):
            error.args = (f"{error} Tried {state.attempt_number} times.",) if state.attempt_number > 1 else error.args
            return True
        if why := why_not_again() or why_not_wait(state.upcoming_sleep, self._longest_pause_s):
            error.args = (f"{error} Not tried again: {why}.",)
            return True
        return False

    def _wait_s(self, state: RetryCallState) -> float:
        return self._jitter(state) + (getattr(_error_of(state), "retry_after_s", None) or 0.0)


def _error_of(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    return error or AssertionError()
