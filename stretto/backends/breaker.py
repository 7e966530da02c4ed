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


class Circuit:
    """What is known of the health of one endpoint; the backends that call it share one.

    Args:
        faults: how many in a row open it.
        over_s: seconds that must lie between the first and the last of them.
        rest_s: seconds until a call may try.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        faults: int = 5,
        over_s: float = 5.0,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = faults
        self._over_s = over_s
        self._rest_s = rest_s
        self._clock = clock
        self._since_s = 0.0
        self._opened_s: float | None = None
        self._trying = False
        self.in_a_row = 0

    def admit(self) -> tuple[bool, float | None]:
        """Ask for a call: whether it is the one that tries; and if it may not pass, the seconds until one may."""
        if self._opened_s is None:
            return False, None
        left_s = max(0.0, self._opened_s + self._rest_s - self._clock())
        if left_s > 0 or self._trying:
            return False, left_s
        self._trying = True
        return True, None

    def end_trial(self) -> None:
        """The call that tried has ended, however it did; it may have been cancelled."""
        self._trying = False

    def heed(self, chunk: Chunk) -> None:
        """Close when the endpoint answers; forget its faults once an answer is whole."""
        if chunk.text or chunk.finish_reason:
            self._opened_s = None
        if chunk.finish_reason:
            self.in_a_row = 0

    def count(self, error: BackendError, *, trying: bool) -> None:
        """Count an error if it is the endpoint's fault."""
        if not isinstance(error, _FAULTS):
            return
        now_s = self._clock()
        if self.in_a_row == 0:
            self._since_s = now_s
        self.in_a_row += 1
        if trying or (self.in_a_row >= self._limit and now_s - self._since_s >= self._over_s):
            self._opened_s = now_s


class Breaker(Wrapper):
    """Refuses calls for a while after several faults in a row, then lets one call try.

    The faults must spread over some time as well: many branches fail together in one short
    disturbance, which the retries outlast.

    Only what says that the endpoint is ill counts: no refused key, bad request or rate limit, and
    no cancelled call. (Of the libraries, purgatory counts a cancelled call as a failure unless told
    otherwise, keeps wall-clock time, and lets every waiting call through at once when it half opens.)
    Source: Nygard, "Release It!".

    Args:
        backend: what to call.
        circuit: the health of its endpoint, shared with the other models there.
    """

    def __init__(self, backend: Backend, circuit: Circuit | None = None) -> None:
        super().__init__(backend)
        self.circuit = circuit or Circuit()

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation. Raises `BreakerOpenError`."""
        circuit = self.circuit
        trying, left_s = circuit.admit()
        if left_s is not None:
            where = getattr(self.inner, "endpoint", "its endpoint")
            when = f"in {left_s:.0f} s" if left_s > 0 else "when the call that tries it now has ended"
            raise BreakerOpenError(
                f"{self.name} is left alone: {where} failed {circuit.in_a_row} times in a row. "
                f"It is tried again {when}.",
                backend=self.name,
                retry_after_s=left_s,
            )
        try:
            stream = self.inner.stream(prompt, options)
            async with tapped(stream, circuit.heed, lambda error: circuit.count(error, trying=trying)) as chunks:
                yield chunks
        finally:
            if trying:
                circuit.end_trial()
