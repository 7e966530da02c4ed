"""Delays calls: limits how many run at a time, and stays within the rate limits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from stretto.backends.base import Backend, Capabilities, Chunk, ModelRequest
from stretto.backends.known_models import estimate_tokens
from stretto.backends.load import Load
from stretto.backends.resilience.rate_limits import PendingCall, RateLimits, asked_to_wait_s, reports
from stretto.backends.resilience.shared import News, Room, SharedLimits
from stretto.backends.resilience.waiting import why_not_wait, why_not_wait_for_limits
from stretto.backends.resilience.wrapper import Wrapper, observed
from stretto.values.errors import BackendError, RateLimitedError
from stretto.values.request import GenerationOptions


class RateLimiter(Wrapper):
    """A wrapper that limits concurrent calls and stays within the rate limits that the server reports.

    A call that the limits do not admit waits until enough has been refilled, taking running calls into
    account. If that would exceed the deadline of the calling task or ``longest_pause_s``, or another
    model can take over sooner, `RateLimitedError` is raised immediately. No report stops calls for
    good: see `RateLimits`.

    Args:
        backend: the backend to call.
        concurrent_calls: calls that run at a time; less than the connections of the client.
        longest_pause_s: the longest wait for the limits, in seconds.
        limits: the limits that the server reports for this model, shared with the other backends that call it.
        shared: the same for all replicas, kept in a store.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        concurrent_calls: int = 32,
        longest_pause_s: float = 120.0,
        limits: RateLimits | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        super().__init__(backend)
        self._longest_pause_s = longest_pause_s
        self._max = concurrent_calls
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = WeakKeyDictionary()
        self.limits = limits or RateLimits()
        self._shared = shared

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the wrapped backend, with no more slots than calls allowed here."""
        inner = self.inner.capabilities
        if inner.concurrent_calls <= self._max:  # read several times for each call
            return inner
        return replace(inner, concurrent_calls=self._max)

    def load_now(self) -> Load:
        """Return running and waiting calls, what is left of the rate limits, and what a refusal says about the load."""
        calls = waiting = 0
        for limiter in self._limiters.values():
            calls += limiter.borrowed_tokens
            waiting += limiter.statistics().tasks_waiting
        refused, capacity = self.limits.refusals()
        return Load(calls + waiting, waiting + self.limits.waiting, self.limits.left(), refused, capacity)

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation once there is room for it."""
        borrower = object()  # not the task: a hedged call is begun in one task and ended in another
        limiter = self._limiters.setdefault(asyncio.get_running_loop(), anyio.CapacityLimiter(self._max))
        await checkpoint_if_cancelled()
        try:  # waiting would let all other tasks run first, even if there is room
            limiter.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            await limiter.acquire_on_behalf_of(borrower)
        try:
            sent = await self._admit(_cost(prompt, options), limiter)
            try:
                async with observed(self.inner.stream(prompt, options), sent.read, sent.fail) as chunks:
                    yield chunks
            finally:
                await sent.settle()
        finally:
            limiter.release_on_behalf_of(borrower)

    async def _admit(self, cost: Mapping[str, int], limiter: anyio.CapacityLimiter) -> _Sent:
        while True:
            wait_s = self.limits.wait_s(cost)
            if wait_s <= 0:
                # Count it here before asking the store: meanwhile, other tasks check the same limits.
                sent = _Sent(
                    PendingCall(self.limits, cost), self.limits, self._shared, lambda: int(limiter.borrowed_tokens)
                )
                wait_s = await sent.wait_s(cost)
                if wait_s <= 0:
                    return sent
            if why := why_not_wait(wait_s, self._longest_pause_s) or why_not_wait_for_limits(wait_s):
                raise RateLimitedError(
                    f"{self.name} has used up its rate limit, and {why}. "
                    "Send less at once, allow more time, or raise the limit.",
                    backend=self.name,
                    transient=False,
                    retry_after_s=wait_s,
                )
            await self.limits.wait(wait_s)


class _Sent:
    """A call that was counted locally, and its reports to the replicas."""

    def __init__(
        self, call: PendingCall, limits: RateLimits, shared: SharedLimits | None, under_way: Callable[[], int]
    ) -> None:
        self._call = call
        self._under_way = under_way
        self._limits = limits
        self._shared = shared

    async def wait_s(self, cost: Mapping[str, int]) -> float:
        """Return the seconds until all replicas' limits might admit it; 0: now. Otherwise it is no longer counted."""
        if self._shared is None:
            return 0.0
        room = Room(math.inf)
        try:
            room = await self._shared.take(cost, self._limits.flying)
        finally:
            if room.wait_s > 0:
                self._call.take_back()
        if room.blocked_s > 0 and not self._limits.blocked_s:
            self._limits.hold(room.blocked_s)  # so that afterwards the calls here go out one after the other
        return room.wait_s

    async def read(self, chunk: Chunk) -> None:
        """Process the headers of its response."""
        self._call.read(chunk)
        if self._shared is not None and chunk.headers and (reported := reports(chunk.headers)):
            await self._shared.report(News(self._limits.flying, reported=reported))

    async def fail(self, error: BackendError) -> None:
        """Process what an error says about the limits."""
        returned = self._call.cost if self._call.never_arrived(error) else {}
        self._call.fail(error)
        if isinstance(error, RateLimitedError):
            self._limits.refuse(self._under_way())
        if self._shared is None:
            return
        news = News(self._limits.flying, returned, reports(error.headers), asked_to_wait_s(error))
        if news.returned or news.reported or news.hold_s:
            await self._shared.report(news)

    async def settle(self) -> None:
        """Stop counting it: a report includes it, or it has ended."""
        unreported = self._call.is_open
        self._call.settle()
        if self._shared is not None and unreported and self._limits.left():  # cancelled, but still counted elsewhere
            with anyio.CancelScope(shield=True):
                await self._shared.report(News(self._limits.flying))


def _cost(prompt: ModelRequest, options: GenerationOptions) -> dict[str, int]:
    """Estimate what a call takes from each limit."""
    tokens = estimate_tokens(prompt)
    answer = options.max_tokens or 1
    return {"requests": 1, "tokens": tokens + answer, "input-tokens": tokens, "output-tokens": answer}
