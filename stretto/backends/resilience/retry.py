"""Retries a call after a transient failure. The only module of the library that retries calls."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.backends.providers.failures import charge, is_loading, usage_of
from stretto.backends.resilience.waiting import why_not_wait, why_not_wait_for_limits
from stretto.backends.resilience.wrapper import ObservedStream, Wrapper, open_to_first_text
from stretto.observe.hooks import RetryPlanned, watchers
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, BreakerOpenError, RateLimitedError
from stretto.values.request import GenerationOptions

_log = logging.getLogger(__name__)
_LOADING_S = 1.0  # before a server that is loading its model is asked again


def _count_call(error: BackendError) -> None:
    """Count the failed call unless it was counted already. A call that a wrapper refused was never sent."""
    refused = isinstance(error, BreakerOpenError) or (isinstance(error, RateLimitedError) and error.status is None)
    if not refused and not usage_of(error).calls:
        charge(error, Usage(calls=1))


def _what(error: BackendError) -> str:
    """Return what failed, for the log: without the server's words, which can quote the request."""
    return type(error).__name__ + (f", HTTP {error.status}" if error.status else "")


class Retry(Wrapper):
    """A wrapper that retries a call that failed before its first text, if the failure is ``transient``.

    After the first text a repetition would contradict what was read, so the error goes up to a caller that
    can recover in another way. Waits are exponential with full jitter (Brooker, "Exponential Backoff
    and Jitter"), on top of what the server asks for (``retry_after_s``). A wait beyond the deadline of
    the calling task or ``longest_pause_s`` is not started, nor a call beyond the budget: the error is
    raised immediately and says so. The same applies if a server asks for a long wait and another model can
    take over. A server that is loading its model is asked again for up to ``longest_pause_s``, beyond ``attempts``.
    If a breaker refuses the repetition, the first failure is raised: it says more about this request.

    Args:
        backend: the backend to call.
        attempts: the most calls, including the first one.
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
        self._attempts = attempts
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._longest_pause_s = longest_pause_s

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start a generation; enters the context with its first text available."""
        async with AsyncExitStack() as stack:
            yield await self._begin(stack, prompt, options)

    async def _begin(self, stack: AsyncExitStack, prompt: ModelRequest, options: GenerationOptions) -> ObservedStream:
        usage = Usage()
        failed: BackendError | None = None
        attempt = sent = 0
        loaded_by = anyio.current_time() + self._longest_pause_s
        while True:
            attempt += 1
            sent += 1
            try:
                async with AsyncExitStack() as trial:
                    chunks = await open_to_first_text(trial, self.inner, prompt, options)
                    stack.push_async_exit(trial.pop_all())
                    return chunks.after([Chunk(usage=usage)]) if usage.retries else chunks
            except BackendError as error:
                if failed is not None and isinstance(error, BreakerOpenError):
                    failed.remark(f"Not tried again: {error}")
                    failed.usage = usage
                    raise failed from None
                if is_loading(error) and anyio.current_time() < loaded_by:
                    attempt -= 1  # it is waited for, however many attempts that takes
                    wait_s = random.uniform(_LOADING_S / 2, _LOADING_S)  # noqa: S311 - jitter is not a secret
                else:
                    wait_s = self._wait_s(error, attempt)
                _count_call(error)
                error.attempts = sent
                if not error.transient or self._must_stop(error, attempt, wait_s):
                    charge(error, usage)
                    raise
                usage += usage_of(error) + Usage(retries=1)
                failed = error
                count_repetition()
                watchers().retry_planned(
                    RetryPlanned(backend=self.name, attempt=attempt, wait_s=wait_s, error=error, usage=usage_of(error))
                )
                _log.info("attempt %d failed, next in %.2f s: %s of %s", attempt, wait_s, _what(error), self.name)
            await anyio.sleep(wait_s)

    def _must_stop(self, error: BackendError, attempt: int, wait_s: float) -> bool:
        if attempt >= self._attempts:
            return True
        requested_s = error.retry_after_s or 0.0
        if (
            why := why_not_again()
            or why_not_wait(wait_s, self._longest_pause_s)
            or why_not_wait_for_limits(requested_s)
        ):
            error.remark(f"Not tried again: {why}.")
            return True
        return False

    def _wait_s(self, error: BackendError, attempt: int) -> float:
        longest = min(self._longest_wait_s, self._first_wait_s * 2 ** (attempt - 1))
        return random.uniform(0, longest) + (error.retry_after_s or 0.0)  # noqa: S311 - jitter is no secret
