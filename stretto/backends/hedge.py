"""Sends a slow call a second time and takes the answer that begins first."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from stretto.answer import Usage
from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.base import Backend, Chunk, Prompt
from stretto.backends.failures import charge, usage_of
from stretto.backends.known_models import estimate_tokens
from stretto.backends.wrapper import Replay, Wrapper, open_to_first_text
from stretto.errors import BackendError
from stretto.request import GenerationOptions

_SAMPLES = 200
_ENOUGH = 20


class Hedge(Wrapper):
    """Repeats a call whose first text is later than usual, before it arrives, within a budget.

    The wait is the 95th percentile of the times to first text seen so far, and nothing is hedged
    until there are twenty; the loser is cancelled and counted. Source: Dean and Barroso, "The Tail
    at Scale", Communications of the ACM 56(2), 2013.

    Args:
        backend: what to call.
        after_s: wait this long instead, in seconds.
        share: extra calls at most, as a share of all calls.
    """

    def __init__(self, backend: Backend, *, after_s: float | None = None, share: float = 0.05) -> None:
        super().__init__(backend)
        self._after_s = after_s
        self._share = share
        self._times: deque[float] = deque(maxlen=_SAMPLES)
        self._calls = 0
        self._hedges = 0

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start a generation; returns with its first text at hand."""
        async with AsyncExitStack() as stack:
            self._calls += 1
            yield await self._race(stack, prompt, options)

    def _patience_s(self) -> float | None:
        """Give the wait before a second call; ``None``: there is to be none."""
        if self._hedges + 1 > self._share * self._calls:
            return None
        if self._after_s is not None:
            return self._after_s
        if len(self._times) < _ENOUGH:
            return None
        return sorted(self._times)[int(0.95 * len(self._times))]

    async def _race(self, stack: AsyncExitStack, prompt: Prompt, options: GenerationOptions) -> Replay:
        race = _Race(self.inner, prompt, options, await stack.enter_async_context(AsyncExitStack()))
        began_s = anyio.current_time()
        async with anyio.create_task_group() as runners:
            runners.start_soon(race.run)
            with anyio.move_on_after(self._patience_s()):
                await race.decided.wait()
            if not race.decided.is_set() and why_not_again() is None:
                count_repetition()
                self._hedges += 1
                race.running += 1
                runners.start_soon(race.run)
            await race.decided.wait()
            runners.cancel_scope.cancel()
        # What a slow call would have needed is not known once it lost; its wait so far stands for it.
        self._times.append(anyio.current_time() - began_s)
        return race.result()


@dataclass
class _Race:
    backend: Backend
    prompt: Prompt
    options: GenerationOptions
    kept: AsyncExitStack
    running: int = 1
    sent: int = 0
    winner: Replay | None = None
    failures: list[Exception] = field(default_factory=list)
    decided: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> None:
        self.sent += 1
        try:
            async with AsyncExitStack() as trial:
                chunks = await open_to_first_text(trial, self.backend, self.prompt, self.options)
                if self.winner is None:
                    # No await from here on: a cancellation cannot come between the stream and who closes it.
                    self.winner = chunks
                    self.kept.push_async_exit(trial.pop_all())
                    self.decided.set()
        except Exception as error:  # noqa: BLE001 - told to the caller by `result`, if nobody wins
            self.failures.append(error)
        finally:
            self.running -= 1
            if self.running == 0:
                self.decided.set()

    def result(self) -> Replay:
        # A cancelled call reports nothing, but its prompt is billed.
        prompt_tokens = (self.sent - 1) * estimate_tokens(self.prompt)
        losers = Usage(prompt_tokens=prompt_tokens, calls=self.sent - 1, hedges=self.sent - 1)
        if self.winner is None:
            error = self.failures[0]
            if isinstance(error, BackendError):
                spent = sum((usage_of(other) for other in self.failures[1:]), Usage(hedges=self.sent - 1))
                charge(error, spent)
            raise error
        if self.sent == 1:
            return self.winner
        return Replay([Chunk(usage=losers)], self.winner)
