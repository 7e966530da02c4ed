"""Ends a stream whose answer is whole: the finish reason ends it, whatever the connection does afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from stretto.backends.base import Chunk
from stretto.values.errors import StreamBrokenError

AFTER_FINISH_S = 1.0
"""How long a backend waits for the usage, which servers send right after the finish reason."""


def broken_off(name: str, advice: str = "Ask again.") -> StreamBrokenError:
    """Say that a stream ended without a finish reason."""
    return StreamBrokenError(
        f"{name} ended its answer without a finish reason: it was cut off on the way. {advice}", backend=name
    )


class Ends:
    """Which answers of one call have their finish reason; it is ``whole`` once all of them have.

    Whoever reads the call knows its end from here: the backend (`AFTER_FINISH_S`), the stall guard around it, and what
    reads any backend's stream into a branch.
    """

    def __init__(self, answers: int) -> None:
        self._open = set(range(answers))
        self.whole = False

    def note(self, chunk: Chunk) -> None:
        if chunk.finish_reason:
            self._open.discard(chunk.choice)
            self.whole = not self._open

    async def next(self, chunks: AsyncIterator[Chunk]) -> Chunk | None:
        """The next chunk; ``None`` at the end. What may follow whole answers is waited for only briefly."""
        if not self.whole:
            chunk = await anext(chunks, None)
            if chunk is not None:
                self.note(chunk)
            return chunk
        # Longer than a backend waits that reports its usage late, or an estimate of it.
        with anyio.move_on_after(2 * AFTER_FINISH_S):
            return await anext(chunks, None)
        return None
