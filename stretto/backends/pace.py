"""Holds calls back: so many at a time, and no more than the rate limits leave."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from stretto.backends.base import Backend, Capabilities, Chunk, Prompt
from stretto.backends.known_models import estimate_tokens
from stretto.backends.waiting import why_not_wait
from stretto.backends.wrapper import Wrapper, tapped
from stretto.errors import BackendError, RateLimitedError
from stretto.request import GenerationOptions

_HEADER = re.compile(
    r"x-ratelimit-(?P<field>limit|remaining|reset)-(?P<kind>requests|tokens)$|"
    r"anthropic-ratelimit-(?P<kind2>requests|tokens|input-tokens|output-tokens)-(?P<field2>limit|remaining|reset)$"
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


class Pace(Wrapper):
    """Bounds the calls under way and keeps within the rate limits that the server reports.

    A call that the limits do not admit waits until enough has been refilled, calls on their way
    included; if that would pass the deadline of the calling task, or be longer than
    ``longest_pause_s``, `RateLimitedError` says so at once.

    Args:
        backend: what to call.
        max_in_flight: calls under way at a time; less than the connections of the client.
        longest_pause_s: the longest wait for the limits, in seconds.
        limits: what the server says is left for this model, shared with the other backends that call it.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        max_in_flight: int = 32,
        longest_pause_s: float = 120.0,
        limits: RateLimits | None = None,
    ) -> None:
        super().__init__(backend)
        self._longest_pause_s = longest_pause_s
        self._max = max_in_flight
        self._limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.CapacityLimiter] = WeakKeyDictionary()
        self.limits = limits or RateLimits()

    @property
    def capabilities(self) -> Capabilities:
        """What the backend inside can do, with no more slots than there may be calls."""
        inner = self.inner.capabilities
        if inner.parallel_slots <= self._max:  # asked for several times a call
            return inner
        return replace(inner, parallel_slots=self._max)

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation when there is room for it."""
        borrower = object()  # not the task: a hedged call is begun in one task and ended in another
        limiter = self._limiters.setdefault(asyncio.get_running_loop(), anyio.CapacityLimiter(self._max))
        await checkpoint_if_cancelled()
        try:  # waiting for room that is there lets all other tasks run first
            limiter.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            await limiter.acquire_on_behalf_of(borrower)
        try:
            call = await self._admit(_cost(prompt, options))
            try:
                async with tapped(self.inner.stream(prompt, options), call.read, call.fail) as chunks:
                    yield chunks
            finally:
                call.settle()
        finally:
            limiter.release_on_behalf_of(borrower)

    async def _admit(self, cost: Mapping[str, int]) -> Call:
        while (wait_s := self.limits.wait_s(cost)) > 0:
            if why := why_not_wait(wait_s, self._longest_pause_s):
                raise RateLimitedError(
                    f"{self.name} has used up its rate limit, and {why}. "
                    "Send less at once, allow more time, or raise the limit.",
                    backend=self.name,
                    transient=False,
                    retry_after_s=wait_s,
                )
            await anyio.sleep(wait_s)
        return Call(self.limits, cost)


def _cost(prompt: Prompt, options: GenerationOptions) -> dict[str, int]:
    """Estimate what a call takes from each limit."""
    tokens = estimate_tokens(prompt)
    answer = options.max_tokens or 1
    return {"requests": 1, "tokens": tokens + answer, "input-tokens": tokens, "output-tokens": answer}


@dataclass
class _Limit:
    """One limit as last reported: a bucket that refills steadily and is full at ``full_s``."""

    remaining: float
    reported_s: float
    full_s: float
    size: float | None

    def wait_s(self, needed: float, now_s: float) -> float:
        """Give the seconds until this much is there; a bucket of unknown size refills at ``full_s``."""
        if needed <= self.remaining or now_s >= self.full_s:
            return 0.0
        due_s = self.full_s
        if self.size is not None and self.size > self.remaining:
            rate = (self.size - self.remaining) / (self.full_s - self.reported_s)
            due_s = min(due_s, self.reported_s + (needed - self.remaining) / rate)
        return max(0.0, due_s - now_s)


class RateLimits:
    """What the server says is left, less what was sent since it said so."""

    def __init__(self) -> None:
        self._limits: dict[str, _Limit] = {}
        self._unreported: Counter[str] = Counter()
        self._held_until_s = 0.0

    def wait_s(self, cost: Mapping[str, int]) -> float:
        """Give the seconds until the limits admit a call of this cost."""
        now_s = time.monotonic()
        waits = [
            limit.wait_s(cost.get(kind, 0) + self._unreported[kind], now_s) for kind, limit in self._limits.items()
        ]
        return max([self._held_until_s - now_s, 0.0, *waits])

    def hold(self, seconds: float) -> None:
        """Let nothing pass for so long: the server asked for it."""
        self._held_until_s = max(self._held_until_s, time.monotonic() + seconds)

    def send(self, cost: Mapping[str, int]) -> None:
        """Count a call that no report includes yet."""
        self._unreported.update(cost)

    def settle(self, cost: Mapping[str, int]) -> None:
        """Stop counting it."""
        self._unreported.subtract(cost)

    def read(self, headers: Mapping[str, str]) -> None:
        """Take in the limits that response headers report."""
        fields: dict[str, dict[str, str]] = {}
        for name, value in headers.items():
            if found := _HEADER.match(name):
                kind = found["kind"] or found["kind2"]
                fields.setdefault(kind, {})[found["field"] or found["field2"]] = value
        now_s = time.monotonic()
        for kind, told in fields.items():
            remaining, reset_s = _number(told.get("remaining")), seconds_until(told.get("reset"))
            if remaining is not None and reset_s is not None:
                self._limits[kind] = _Limit(remaining, now_s, now_s + reset_s, _number(told.get("limit")))


class Call:
    """One call's share of the limits, from its sending until a report includes it."""

    def __init__(self, limits: RateLimits, cost: Mapping[str, int]) -> None:
        self._limits = limits
        self._cost = cost
        self._open = True
        limits.send(cost)

    def read(self, chunk: Chunk) -> None:
        """Take in the headers of its response."""
        if chunk.headers:
            self.settle()
            self._limits.read(chunk.headers)

    def fail(self, error: BackendError) -> None:
        """Take in the headers of an error, and the wait that it asks of everybody."""
        self.settle()
        self._limits.read(error.headers)
        if isinstance(error, RateLimitedError) and error.transient and error.retry_after_s:
            self._limits.hold(error.retry_after_s)

    def settle(self) -> None:
        """Count it no longer: it is reported, or has ended."""
        if self._open:
            self._open = False
            self._limits.settle(self._cost)


def seconds_until(reset: str | None) -> float | None:
    """Read when a limit resets: ``6m0s``, ``120ms``, seconds, or a moment in RFC 3339."""
    if not reset:
        return None
    if (seconds := _number(reset)) is not None:
        return seconds if seconds < 1e9 else max(0.0, seconds - time.time())  # some servers give Unix time
    parts = _DURATION.findall(reset)
    if parts and "".join(number + unit for number, unit in parts) == reset:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        moment = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None
