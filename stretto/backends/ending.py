"""Ends a stream whose answer is whole: the finish reason ends it, whatever the connection does afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from stretto.backends.base import Chunk

__all__ = ["Ends", "UntilWhole"]


class Ends:
    """Which answers of one call have their finish reason.

    Attributes:
        whole: all of them have.
    """

    def __init__(self, answers: int) -> None:
        self._open = set(range(answers))
        self.whole = False

    def note(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        if chunk.finish_reason:
            self._open.discard(chunk.choice)
            self.whole = not self._open


class UntilWhole(AsyncIterator[Chunk]):
    """The chunks of a call. Once the answer is whole, a usage that may follow is waited for only briefly.

    Args:
        chunks: of the call.
        answers: that it writes.
        after_s: the wait for what follows the last finish reason, in seconds.
    """

    def __init__(self, chunks: AsyncIterator[Chunk], answers: int, after_s: float) -> None:
        self._chunks = chunks
        self._ends = Ends(answers)
        self._after_s = after_s

    async def __anext__(self) -> Chunk:
        if not self._ends.whole:
            chunk = await anext(self._chunks)
            self._ends.note(chunk)
            return chunk
        with anyio.move_on_after(self._after_s):
            return await anext(self._chunks)
        raise StopAsyncIteration
