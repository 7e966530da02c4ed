"""Notices silence: a stream from which nothing arrives any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio

from stretto.answer import Usage
from stretto.backends.base import Backend, Chunk, Prompt
from stretto.backends.failures import charge
from stretto.backends.wrapper import Wrapper
from stretto.errors import StalledError
from stretto.request import GenerationOptions

T = TypeVar("T")


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
        """Start one generation."""
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(self.inner.stream(prompt, options))
            yield _Watched(await self.within(self.first_text_s, self.first_text_s, entering), self)

    async def within(self, left_s: float, limit_s: float, coming: Awaitable[T]) -> T:
        """Wait for something no longer than what is left of the limit. Raises `StalledError`."""
        with anyio.move_on_after(left_s):
            return await coming
        error = StalledError(
            f"{self.name} sent no text for {limit_s:g} s. Ask again; if it stays, raise the stall limit.",
            backend=self.name,
        )
        charge(error, Usage(calls=1))
        raise error


class _Watched:
    def __init__(self, chunks: AsyncIterator[Chunk], guard: StallGuard) -> None:
        self._chunks = chunks
        self._guard = guard
        self._limit_s = self._left_s = guard.first_text_s

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Chunk:
        began_s = anyio.current_time()
        chunk = await self._guard.within(self._left_s, self._limit_s, anext(self._chunks))
        if chunk.text:
            self._limit_s = self._guard.gap_s
        # The time that the reader takes between two chunks does not count.
        waited_s = anyio.current_time() - began_s
        self._left_s = self._limit_s if chunk.is_progress else self._left_s - waited_s
        return chunk
