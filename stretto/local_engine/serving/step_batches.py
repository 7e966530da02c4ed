"""Records which requests ran together, and for how many steps, for requests that are watched, as by traces."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stretto.local_engine.generation import Figures

if TYPE_CHECKING:
    from stretto.local_engine.serving.handle import Handle

__all__ = ["StepBatch", "StepBatches"]

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Steps in a row that a request shared with the same other requests.

    Attributes:
        number: the same for all requests that shared these steps; unique in this process.
        requests: that shared them.
        began_s: when the requests came together, in seconds of `time.perf_counter`.
        ended_s: when one of them left or another one came.
        steps: forwards of this request.
        rows: tokens of this request that were evaluated in them: its last one and the nodes of its drafts.
        tokens: committed to this request.
    """

    number: int
    requests: int
    began_s: float
    ended_s: float
    steps: int
    rows: int
    tokens: int


class StepBatches:
    """Follows the requests that run. It is told when one joins or leaves, so a step costs nothing more."""

    def __init__(self) -> None:
        self._watched: list[tuple[Handle, list[StepBatch], Figures]] = []  # with what they had taken at its beginning
        self._number = self._requests = 0
        self._began_s = 0.0

    def change(self, running: Sequence[Handle]) -> None:
        """End the batch under way; these requests run together from now on."""
        watched = [(handle, handle.batches) for handle in running if handle.batches is not None]
        if not watched and not self._watched:
            return
        now = time.perf_counter()
        for handle, batches, before in self._watched:
            after = handle.sequence.figures
            if steps := after.steps - before.steps:
                rows, tokens = after.rows - before.rows, after.tokens - before.tokens
                batches.append(StepBatch(self._number, self._requests, self._began_s, now, steps, rows, tokens))
        self._watched = [(handle, batches, handle.sequence.figures) for handle, batches in watched]
        self._number, self._requests, self._began_s = next(_numbers), len(running), now
