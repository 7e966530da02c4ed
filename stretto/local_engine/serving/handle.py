"""One submitted request, as its submitter sees it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

from stretto.local_engine.generation import Finished, Piece
from stretto.local_engine.serving.sequence import Sequence

__all__ = ["Handle", "Listener"]

Listener = Callable[[Piece | Finished], None]


class Handle:
    """One submitted request.

    Iterate for its pieces and, last, its `Finished`; unless `Engine.submit` was given a listener.
    """

    def __init__(self, sequence: Sequence, cancel: Callable[[Handle], None], listener: Listener | None) -> None:
        self.sequence = sequence
        self.cancelled = False
        self.finished = False
        self._cancel = cancel
        self._queue: queue.SimpleQueue[Piece | Finished] = queue.SimpleQueue()
        self._tell: Listener = listener or self._queue.put

    def __iter__(self) -> Iterator[Piece | Finished]:
        while True:
            event = self._queue.get()
            yield event
            if isinstance(event, Finished):
                return

    def cancel(self) -> None:
        """Ask the engine to let go of it: at once while it waits, before the next forward while it runs.

        Its `Finished` still arrives, in this call or from the engine's thread. Safe from any thread, and
        without effect on a finished request.
        """
        self._cancel(self)

    def tell(self, event: Piece | Finished) -> None:
        """Hand an event to the listener; from the engine only."""
        self.finished = isinstance(event, Finished)
        try:
            self._tell(event)
        except Exception:  # noqa: BLE001 - a listener whose event loop is gone must not harm the other requests
            self.cancelled = True
