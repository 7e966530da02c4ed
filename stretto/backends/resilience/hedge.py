"""Sends a slow call a second time and takes the answer that begins first."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.backends.known_models import estimate_tokens
from stretto.backends.providers.failures import charge, usage_of
from stretto.backends.resilience.stream_task import StreamTask, stream_tasks
from stretto.backends.resilience.wrapper import ObservedStream, Wrapper, reported
from stretto.values.answer import Usage
from stretto.values.errors import BackendError
from stretto.values.request import GenerationOptions

_SAMPLES = 200
_ENOUGH = 20


class Hedge(Wrapper):
    """A wrapper that repeats a call, within a budget, once its first text is later than usual.

    The wait is the 95th percentile of the times to first text so far, and nothing is hedged
    until there are twenty; the loser is cancelled and counted. Source: Dean and Barroso, "The Tail
    at Scale", Communications of the ACM 56(2), 2013.

    Args:
        backend: the backend to call.
        after_s: wait this many seconds instead.
        share: the most extra calls, as a share of all calls.
    """

    def __init__(self, backend: Backend, *, after_s: float | None = None, share: float = 0.05) -> None:
        super().__init__(backend)
        self._after_s = after_s
        self._share = share
        self._times: deque[float] = deque(maxlen=_SAMPLES)
        self._calls = 0
        self._hedges = 0

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start a generation; enters the context with its first text available."""
        self._calls += 1
        async with stream_tasks() as tasks:
            race = _Race(self.inner, prompt, options, tasks)
            try:
                yield await self._race(race)
            finally:
                race.stop_all_but(None)

    def _patience_s(self) -> float | None:
        """Return the wait before a second call; ``None`` if there should be none."""
        if self._hedges + 1 > self._share * self._calls:
            return None
        if self._after_s is not None:
            return self._after_s
        if len(self._times) < _ENOUGH:
            return None
        return sorted(self._times)[int(0.95 * len(self._times))]

    async def _race(self, race: _Race) -> AsyncIterator[Chunk]:
        began_s = anyio.current_time()
        race.send()
        with anyio.move_on_after(self._patience_s()):
            await race.decided.wait()
        if not race.decided.is_set() and why_not_again() is None:
            count_repetition()
            self._hedges += 1
            race.send()
        await race.decided.wait()
        race.stop_all_but(race.winner)
        # How long a slow call would have taken is unknown once it has lost; its wait so far is used instead.
        self._times.append(anyio.current_time() - began_s)
        return race.result()


class _Race:
    """One call, and perhaps a second one like it; ``decided`` is set when one has its first text or all have failed."""

    def __init__(self, backend: Backend, prompt: ModelRequest, options: GenerationOptions, tasks: TaskGroup) -> None:
        self._call = (backend, prompt, options)
        self._tasks = tasks
        self._call_tasks: list[StreamTask] = []
        self._failures: list[Exception] = []
        self.winner: StreamTask | None = None
        self.decided = anyio.Event()

    def send(self) -> None:
        """Send one more call."""
        call_task = StreamTask()
        self._call_tasks.append(call_task)
        self._tasks.start_soon(call_task.run, *self._call)
        self._tasks.start_soon(self._watch, call_task)

    def stop_all_but(self, kept: StreamTask | None) -> None:
        """End the other calls."""
        for call_task in self._call_tasks:
            if call_task is not kept:
                call_task.stop()

    def result(self) -> AsyncIterator[Chunk]:
        """Return the winner's chunks. Raises the first failure if nobody won."""
        # A cancelled call reports nothing, but its prompt is billed.
        more = len(self._call_tasks) - 1
        losers = Usage(prompt_tokens=more * estimate_tokens(self._call[1]), calls=more, hedges=more)
        if self.winner is None:
            error = self._failures[0]
            if isinstance(error, BackendError):
                others_usage = sum((usage_of(other) for other in self._failures[1:]), Usage(hedges=more))
                charge(error, others_usage)
            raise error
        return ObservedStream(self.winner).after([Chunk(usage=losers)]) if more else self.winner

    async def _watch(self, call_task: StreamTask) -> None:
        await call_task.begun.wait()
        if self.winner is not None:
            return
        if call_task.answers:
            self.winner = call_task
            self.decided.set()
        elif call_task.failure is not None:
            if isinstance(call_task.failure, BackendError):
                charge(call_task.failure, reported(call_task.unread()))
            self._failures.append(call_task.failure)
        if len(self._failures) == len(self._call_tasks):
            self.decided.set()
