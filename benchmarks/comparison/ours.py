"""The engine's methods."""

from __future__ import annotations

import threading

from comparison.run import Run, Task
from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.serving.engine import Engine

__all__ = ["Ours"]


class Ours:
    """One decoding method of the engine, asked from outside its thread as any application would."""

    peer = False

    def __init__(self, engine: Engine, decoding: str) -> None:
        self.name = decoding
        self._engine = engine

    def answer(self, task: Task) -> Run:
        """See `Method`. Raises the engine's error."""
        events: list[tuple[float, Piece | Finished]] = []
        over = threading.Event()

        def listen(event: Piece | Finished) -> None:
            events.append((task.clock(), event))
            if isinstance(event, Finished):
                over.set()

        request = Generation(
            task.prompt,
            task.limit,
            end_ids=self._engine.model.ends,
            temperature=task.temperature,
            seed=task.seed,
            decoding=self.name,
        )
        began = task.clock()
        handle = self._engine.submit(request, listen)
        over.wait()
        ended, last = events.pop()
        if not isinstance(last, Finished) or last.figures is None or last.error is not None:
            raise last.error if isinstance(last, Finished) and last.error else RuntimeError(f"{self.name}: {last}")
        arrivals = [(at - began, len(piece.tokens)) for at, piece in events if isinstance(piece, Piece)]
        silent = last.completion_tokens - sum(count for _, count in arrivals)  # an end token has no text
        if silent:
            arrivals.append((ended - began, silent))
        return Run(tuple(handle.sequence.generated), arrivals, last.figures.steps, last.figures.rows)
