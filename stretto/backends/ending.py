"""Ends a stream whose answer is whole: the finish reason ends it, whatever the connection does afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from stretto.backends.base import Chunk
from stretto.values.errors import StreamBrokenError

__all__ = ["AFTER_FINISH_S", "Ends", "UntilWhole", "broken_off"]

AFTER_FINISH_S = 1.0
"""How long a backend waits for the usage, which servers send right after the finish reason."""


def broken_off(name: str, advice: str = "Ask again.") -> StreamBrokenError:
    """Say that a stream ended without a finish reason."""
    return StreamBrokenError(
        f"{name} ended its answer without a finish reason: it was cut off on the way. {advice}", backend=name
    )


class Ends:
    """Which answers of one call have their finish reason; it is ``whole`` once all of them have."""

    def __init__(self, answers: int) -> None:
        self._open = set(range(answers))
        self.whole = False

    def note(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        if chunk.finish_reason:
            self._open.discard(chunk.choice)
            self.whole = not self._open


class UntilWhole(AsyncIterator[Chunk]):
    """The chunks of a call, of any backend. Once its answers are whole, what may follow is waited for only briefly."""

    def __init__(self, chunks: AsyncIterator[Chunk], answers: int) -> None:
        self._chunks = chunks
        self._ends = Ends(answers)

    async def __anext__(self) -> Chunk:
        if not self._ends.whole:
            chunk = await anext(self._chunks)
            self._ends.note(chunk)
            return chunk
        # Longer than a backend waits that reports its usage late, or an estimate of it.
        with anyio.move_on_after(2 * AFTER_FINISH_S):
            return await anext(self._chunks)
        raise StopAsyncIteration
