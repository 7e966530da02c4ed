"""Notices silence: a stream from which nothing arrives any more."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from stretto.answer import Usage
from stretto.backends.base import Backend, Chunk, Prompt
from stretto.backends.providers.failures import charge
from stretto.backends.resilience.pump import Pump, pumping
from stretto.backends.resilience.wrapper import Wrapper
from stretto.errors import StalledError
from stretto.request import GenerationOptions

ON_TIME_S = 0.02
"""A limit that passes later than this was noticed late, because something held up the event loop."""


class StallGuard(Wrapper):
    """Ends a stream with `StalledError` when the answer does not come on for too long.

    What counts is `Chunk.is_progress`: text, thinking and the end of the answer. Events without any of these, which
    only keep a connection open, may come without end.

    Args:
        backend: what to watch.
        first_text_s: the limit in seconds until the first text: models may think, servers may queue.
        gap_s: the limit after it.
    """

    def __init__(self, backend: Backend, *, first_text_s: float = 120.0, gap_s: float = 30.0) -> None:
        super().__init__(backend)
        self.first_text_s = first_text_s
        self.gap_s = gap_s

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation. Its errors are raised while iterating, also those of its beginning."""
        pump = Pump()
        async with pumping() as tasks:
            tasks.start_soon(pump.run, self.inner, prompt, options, name=f"stretto call {self.name}")
            try:
                yield _Watched(pump, self)
            finally:
                pump.stop()


class _Watched(AsyncIterator[Chunk]):
    def __init__(self, chunks: Pump, guard: StallGuard) -> None:
        self._chunks = chunks
        self._guard = guard
        self._limit_s = self._left_s = guard.first_text_s

    async def __anext__(self) -> Chunk:
        late_s = math.inf
        while late_s > ON_TIME_S:
            began_s = anyio.current_time()
            with anyio.move_on_after(self._left_s):
                chunk = await anext(self._chunks)
                if chunk.is_answer:
                    self._limit_s = self._guard.gap_s
                # The time that the reader takes between two chunks does not count.
                waited_s = anyio.current_time() - began_s
                self._left_s = self._limit_s if chunk.is_progress else self._left_s - waited_s
                return chunk
            # Nor does time in which the event loop was held up: what arrived meanwhile could not be read.
            late_s = anyio.current_time() - began_s - self._left_s
            self._left_s = min(late_s, self._limit_s)
        name = self._guard.name
        error = StalledError(
            f"{name} sent no text for {self._limit_s:g} s. Ask again; if it stays, raise the stall limit.",
            backend=name,
        )
        charge(error, Usage(calls=1))
        raise error
