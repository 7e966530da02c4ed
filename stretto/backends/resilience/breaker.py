"""A circuit breaker: it stops calls to an endpoint that keeps failing."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from stretto.backends.allowance import Caller, calling
from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.backends.providers.failures import is_loading
from stretto.backends.resilience.shared import SharedHealth
from stretto.backends.resilience.suspects import MOST_TRIALS, Suspects, fingerprint, may_follow_the_request
from stretto.backends.resilience.waiting import Trial
from stretto.backends.resilience.wrapper import Wrapper, observed
from stretto.values.errors import (
    BackendError,
    BreakerOpenError,
    ConnectionFailedError,
    ServerFailedError,
    StalledError,
    StreamBrokenError,
)
from stretto.values.request import GenerationOptions

_MOST_BLAMED = 50
_LOOK_AGAIN_S = 0.25  # during a trial by another replica
_FAULTS = (ServerFailedError, ConnectionFailedError, StreamBrokenError, StalledError)


class Circuit:
    """The health of one endpoint, shared by the backends that call it.

    Args:
        faults: consecutive faults that open it.
        over_s: minimum seconds between the first and the last of them.
        rest_s: seconds until a trial call is allowed; also the longest wait for the outcome of that call.
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
        self._clock = clock
        self._since_s = 0.0
        self._opened_s: float | None = None
        self._blamed: set[Caller | None] = set()  # what the failed calls were made for
        self._excepted = False
        self._requests_only = True  # every consecutive fault could be caused by its request
        self._tried = 0
        self.suspects = Suspects(clock)
        self.rest_s = rest_s
        self.in_a_row = 0
        self.last: BackendError | None = None
        self.trial: Trial | None = None

    def admit(self, prompt: ModelRequest | None = None) -> tuple[Trial | None, float | None]:
        """Request a call. Returns its trial, if it is one, and if it is refused, the seconds until one is allowed."""
        if self._opened_s is None:
            return None, None
        left_s = max(0.0, self._opened_s + self.rest_s - self._clock())
        if self.trial is not None or (left_s > 0 and not self._is_exception(prompt)):
            return None, left_s
        self.trial = Trial()
        return self.trial, None

    def end(self, trial: Trial) -> None:
        """End a trial call, whatever its outcome; it might have been cancelled."""
        trial.end()
        if self.trial is trial:
            self.trial = None

    def observe(self, chunk: Chunk) -> None:
        """Close when the endpoint answers; forget its faults once an answer is complete."""
        if chunk.is_progress:
            self._opened_s = None
            if self.trial is not None:
                self.end(self.trial)
        if chunk.finish_reason:
            self.in_a_row = self._tried = 0
            self._blamed.clear()
            self._excepted = False
            self._requests_only = True
            self.suspects.answered += 1

    def count(self, error: BackendError, trial: Trial | None, prompt: ModelRequest | None = None) -> bool:
        """Count an error if it is the endpoint's fault, and return whether it is.

        An error that would recur at once (a late first text, a port where nobody listens) is not a fault that time
        heals, and a server that is loading its model is waited for. An error caused by its request is marked as not
        transient.
        """
        if not (isinstance(error, _FAULTS) and error.transient) or is_loading(error):
            return False
        now_s = self._clock()
        if prompt is not None and may_follow_the_request(error):
            request = fingerprint(prompt)
            repeated = self.suspects.note(request)
            if why := self.suspects.why_not_again(request):
                error.transient = False
                error.remark(f"Not tried again: {why}.")
            if repeated:
                if trial is not None:
                    self._opened_s = now_s
                return False
        else:
            self._requests_only = False
        if self.in_a_row == 0:
            self._since_s = now_s
        self.in_a_row += 1
        self.last = error
        if self._opened_s is None and len(self._blamed) < _MOST_BLAMED:
            self._blamed.add(calling())
        if trial is not None or (self.in_a_row >= self._limit and now_s - self._since_s >= self._over_s):
            self._opened_s = now_s
        return True

    def _is_exception(self, prompt: ModelRequest | None) -> bool:
        """Return whether this call can be tried immediately, because the faults might be those of other requests.

        A single prompt can make a server fail. An outline that keeps failing must not prevent the direct answer, nor
        one client's requests those of another.
        """
        if self._requests_only and prompt is not None and self._tried < MOST_TRIALS:
            if fingerprint(prompt) in self.suspects:
                return False
            self._tried += 1
            return True
        caller = calling()
        if caller is None or self._excepted or caller in self._blamed or not self._blamed:
            return False
        self._excepted = all(each is not None and each.answer == caller.answer for each in self._blamed)
        return self._excepted


class Breaker(Wrapper):
    """A circuit breaker: refuses calls for a while after consecutive faults, then admits one trial call.

    The others wait for the outcome of the trial. The faults must spread over some time as well: many
    branches fail together in a short disruption, which the retries outlast.

    Only failures of the endpoint itself count: not a rejected key, a bad request or a rate limit, nor
    a cancelled call. (Among libraries, purgatory by default counts a cancelled call as a failure,
    uses wall-clock time, and lets every waiting call through at once when it half opens.)
    Source: Nygard, "Release It!".

    Args:
        backend: the backend to call.
        circuit: the health of its endpoint, shared with the other models there.
        shared: the same as seen by all replicas, kept in a store.
    """

    def __init__(self, backend: Backend, circuit: Circuit | None = None, shared: SharedHealth | None = None) -> None:
        super().__init__(backend)
        self.circuit = circuit or Circuit()
        self._shared = shared

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation. Raises `BreakerOpenError`."""
        circuit = self.circuit
        trial = await self._admitted(prompt)
        try:
            reports = await self._admitted_by_all(prompt)
            try:
                stream = self.inner.stream(prompt, options)

                async def observe(chunk: Chunk) -> None:
                    circuit.observe(chunk)
                    await reports.observe(chunk)

                async def count(error: BackendError) -> None:
                    if circuit.count(error, trial, prompt):
                        await reports.count(error)

                async with observed(stream, observe, count) as chunks:
                    yield chunks
            finally:
                await reports.end()
        finally:
            if trial is not None:
                circuit.end(trial)

    async def _admitted(self, prompt: ModelRequest) -> Trial | None:
        circuit = self.circuit
        until_s = anyio.current_time() + circuit.rest_s
        while True:
            trial, left_s = circuit.admit(prompt)
            if left_s is None:
                return trial
            patience_s = until_s - anyio.current_time()
            if circuit.trial is None or patience_s <= 0:
                raise self._refusal(left_s, circuit.in_a_row, _what_failed(circuit.last))
            await circuit.trial.wait(patience_s)

    async def _admitted_by_all(self, prompt: ModelRequest) -> _CallReports:
        """Request a call, by what all replicas have seen."""
        if self._shared is None:
            return _CallReports()
        token = secrets.token_hex(8)
        caller = calling()
        answer = None if caller is None else caller.answer
        failed = self.circuit.suspects
        fresh = not (failed and fingerprint(prompt) in failed)
        until_s = anyio.current_time() + self.circuit.rest_s
        while True:
            try:
                standing = await self._shared.admit(token, answer, fresh=fresh)
            except BaseException:  # cancelled: the store might already take this call for the trial
                with anyio.CancelScope(shield=True):
                    await self._shared.report("end", token=token)
                raise
            if standing.verdict in ("go", "try"):
                return _CallReports(self._shared, token if standing.verdict == "try" else "", answer, standing.faults)
            patience_s = until_s - anyio.current_time()
            if standing.verdict == "no" or patience_s <= 0:
                raise self._refusal(standing.left_s, standing.faults, standing.last)
            await anyio.sleep(min(_LOOK_AGAIN_S, patience_s))

    def _refusal(self, left_s: float, faults: int, failure: str) -> BreakerOpenError:
        where = getattr(self.inner, "endpoint", "its endpoint")
        when = f"in {left_s:.0f} s" if left_s > 0 else "when the call that tries it now has ended"
        return BreakerOpenError(
            f"{self.name} is not called for now: {where} failed {faults} times in a row, "
            f"the last with {failure}. It is tried again {when}.",
            backend=self.name,
            retry_after_s=left_s,
        )


class _CallReports:
    """The reports on one call to the replicas; nothing without a store."""

    def __init__(
        self, shared: SharedHealth | None = None, token: str = "", answer: int | None = None, faults: int = 0
    ) -> None:
        self._shared = shared
        self._token = token
        self._answer = answer
        self._faults = faults

    async def observe(self, chunk: Chunk) -> None:
        """Report that the endpoint answers, if that is news."""
        if self._shared is None:
            return
        if chunk.finish_reason and self._faults:
            self._faults, self._token = 0, ""
            await self._shared.report("whole")
        elif chunk.is_progress and self._token:
            await self._shared.report("answers", token=self._token)
            self._token = ""

    async def count(self, error: BackendError) -> None:
        """Report a fault of the endpoint, which the local circuit has counted."""
        if self._shared is not None:
            token, self._token = self._token, ""
            failure = _what_failed(error)
            follows = may_follow_the_request(error)
            await self._shared.report("fault", token=token, answer=self._answer, failure=failure, follows=follows)

    async def end(self) -> None:
        """Allow another trial call, if this one was a trial and has reported nothing."""
        if self._shared is not None and self._token:
            with anyio.CancelScope(shield=True):
                await self._shared.report("end", token=self._token)


def _what_failed(error: BackendError | None) -> str:
    """Return what failed, without the server's words: they can quote somebody else's request."""
    if error is None or error.status is None:
        return _IN_WORDS.get(type(error), "an error")
    return f"HTTP {error.status}"


_IN_WORDS: Mapping[type, str] = {
    ConnectionFailedError: "a connection that could not be made, or was closed without an answer",
    StreamBrokenError: "a stream that broke off",
    StalledError: "a stream that fell silent",
}
