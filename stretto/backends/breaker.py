"""Leaves an endpoint alone that fails again and again."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from stretto.backends.base import Backend, Chunk, Prompt
from stretto.backends.wrapper import Wrapper, tapped
from stretto.errors import (
    BackendError,
    BreakerOpenError,
    ConnectionFailedError,
    ServerFailedError,
    StalledError,
    StreamBrokenError,
)
from stretto.request import GenerationOptions

_FAULTS = (ServerFailedError, ConnectionFailedError, StreamBrokenError, StalledError)


class Breaker(Wrapper):
    """Refuses calls for a while after several faults in a row, then lets one call try.

    The faults must spread over some time as well: many branches fail together in one short
    disturbance, which the retries outlast.

    Only what says that the endpoint is ill counts: no refused key, bad request or rate limit, and
    no cancelled call. (Of the libraries, purgatory counts a cancelled call as a failure unless told
    otherwise, keeps wall-clock time, and lets every waiting call through at once when it half opens.)
    Source: Nygard, "Release It!".

    Args:
        backend: the endpoint.
        faults: how many in a row open the breaker.
        over_s: seconds that must lie between the first and the last of them.
        rest_s: seconds until a call may try.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        faults: int = 5,
        over_s: float = 5.0,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(backend)
        self._limit = faults
        self._over_s = over_s
        self._rest_s = rest_s
        self._clock = clock
        self._in_a_row = 0
        self._since_s = 0.0
        self._opened_s: float | None = None
        self._trying = False

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation. Raises `BreakerOpenError`."""
        trying = self._admit()
        try:
            stream = self.inner.stream(prompt, options)
            async with tapped(stream, self._heed, lambda error: self._count(error, trying)) as chunks:
                yield chunks
        finally:
            if trying:
                self._trying = False

    def _admit(self) -> bool:
        """Let a call pass; whether it is the one that tries."""
        if self._opened_s is None:
            return False
        left_s = self._opened_s + self._rest_s - self._clock()
        if left_s > 0 or self._trying:
            where = getattr(self.inner, "endpoint", "its endpoint")
            when = f"in {left_s:.0f} s" if left_s > 0 else "when the call that tries it now has ended"
            raise BreakerOpenError(
                f"{self.name} is left alone: {where} failed {self._in_a_row} times in a row. It is tried again {when}.",
                backend=self.name,
                retry_after_s=max(left_s, 0.0),
            )
        self._trying = True
        return True

    def _heed(self, chunk: Chunk) -> None:
        """Close the breaker when the endpoint answers; forget its faults once an answer is whole."""
        if chunk.text or chunk.finish_reason:
            self._opened_s = None
        if chunk.finish_reason:
            self._in_a_row = 0

    def _count(self, error: BackendError, trying: bool) -> None:
        if not isinstance(error, _FAULTS):
            return
        now_s = self._clock()
        if self._in_a_row == 0:
            self._since_s = now_s
        self._in_a_row += 1
        if trying or (self._in_a_row >= self._limit and now_s - self._since_s >= self._over_s):
            self._opened_s = now_s
