"""Ends a stream whose answer is complete: the finish reason ends it, whatever the connection does afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from stretto.backends.base import Chunk
from stretto.values.errors import StreamBrokenError

AFTER_FINISH_S = 1.0
"""How long, in seconds, a backend waits for the usage, which servers send right after the finish reason."""


def broken_off(name: str, advice: str = "Ask again.") -> StreamBrokenError:
    """Return the error for a stream that ended without a finish reason."""
    return StreamBrokenError(
        f"{name} ended its answer without a finish reason: it was cut off on the way. {advice}", backend=name
    )


class Ends:
    """Which answers of one call have their finish reason; ``whole`` once all of them have.

    All readers of the call determine its end here: the backend (`AFTER_FINISH_S`), the stall guard around it, and what
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
        """Return the next chunk; ``None`` at the end. Waits only briefly for what can follow complete answers."""
        if not self.whole:
            chunk = await anext(chunks, None)
            if chunk is not None:
                self.note(chunk)
            return chunk
        # Longer than a backend itself waits for a late usage, before it reports an estimate.
        with anyio.move_on_after(2 * AFTER_FINISH_S):
            return await anext(chunks, None)
        return None
