"""A submitted request, as its submitter sees it."""

from __future__ import annotations

import itertools
import logging
import queue
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from stretto.local_engine.generation import Figures, Finished, Piece, Stage
from stretto.local_engine.log import log_event
from stretto.local_engine.serving.sequence import Sequence

Listener = Callable[[Piece | Finished], None]

StageListener = Callable[[Stage, float], None]
"""Called with a stage, and the time in seconds of `time.perf_counter` at which a request reached it."""

_log = logging.getLogger(__package__)
_requests = itertools.count(1)  # numbers for requests
_batches = itertools.count(1)  # numbers for batches


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Consecutive steps that a request shared with the same other requests.

    Attributes:
        number: the same for all requests that shared these steps; unique in this process.
        requests: number of requests that shared them.
        began_s: when the requests came together, in seconds of `time.perf_counter`.
        ended_s: when one of them left or another one joined.
        steps: forwards of this request.
        rows: tokens of this request that were evaluated: its last one and the nodes of its drafts.
        tokens: tokens committed to this request.
    """

    number: int
    requests: int
    began_s: float
    ended_s: float
    steps: int
    rows: int
    tokens: int


class StepBatches:
    """Tracks which requests run together. It is updated only when one joins or leaves, so steps cost nothing more."""

    def __init__(self) -> None:
        self._watched: list[tuple[Handle, list[StepBatch], Figures]] = []  # with their figures at its beginning
        self._number = self._requests = 0
        self._began_s = 0.0

    def change(self, running: Collection[Handle]) -> None:
        """End the current batch; from now on, these requests run together."""
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
        self._number, self._requests, self._began_s = next(_batches), len(running), now


class Handle:
    """A submitted request.

    Provisional: it may change in any release.

    Iterate over it for its pieces and, last, its `Finished`, unless `Engine.submit` was given a listener.

    Attributes:
        sequence: its state.
        number: number of the request in this process, for logs.
        stages: when it reached each stage, in seconds of `time.perf_counter`.
        batches: the batches of steps that it was in, if it is watched; complete when it has ended.
        passed_over: how often later requests were admitted before it.
        cancelled: whether it should end as soon as possible.
        finished: whether it has ended.
    """

    def __init__(
        self,
        sequence: Sequence,
        cancel: Callable[[Handle], None],
        listener: Listener | None,
        on_stage: StageListener | None = None,
        *,
        watched: bool = False,
    ) -> None:
        self.sequence = sequence
        self.number = next(_requests)
        self.stages: dict[Stage, float] = {}
        self.batches: list[StepBatch] | None = [] if watched else None
        self.passed_over = 0
        self.cancelled = False
        self.finished = False
        self._cancel = cancel
        self._queue: queue.SimpleQueue[Piece | Finished] = queue.SimpleQueue()
        self._listener: Listener = listener or self._queue.put
        self._on_stage = on_stage

    def __iter__(self) -> Iterator[Piece | Finished]:
        while True:
            event = self._queue.get()
            yield event
            if isinstance(event, Finished):
                return

    def cancel(self) -> None:
        """Cancel the request: at once if it waits, before the next forward if it runs.

        Its `Finished` still arrives, in this call or from the engine's thread. Safe from any thread, and
        without effect on a finished request.
        """
        self._cancel(self)

    def reach(self, stage: Stage) -> None:
        """Record that the request has reached a stage. Only the engine calls this."""
        at_s = self.stages[stage] = time.perf_counter()
        if self._on_stage is not None:
            try:
                self._on_stage(stage, at_s)
            except Exception:  # noqa: BLE001 - as in `tell`
                self.cancelled = True

    def tell(self, event: Piece | Finished) -> None:
        """Pass an event to the listener. Only the engine calls this."""
        if isinstance(event, Finished):
            self.finished = True
            self._log_end(event)  # first: whoever sees the end finds its line in the log
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001 - a listener whose event loop is gone must not harm the other requests
            self.cancelled = True

    def _log_end(self, end: Finished) -> None:
        """Log how long each phase of the request took, without any of its text."""
        at = self.stages.get
        submitted, admitted, read, first = at("submitted"), at("admitted"), at("prompt_read"), at("first_token")
        log_event(
            _log,
            logging.INFO,
            "request ended",
            request=self.number,
            reason=end.reason,
            error=type(end.error).__name__ if end.error is not None else None,
            queue_s=_between(submitted, admitted),
            prefill_s=_between(admitted, read),
            first_token_s=_between(submitted, first),
            total_s=_between(submitted, time.perf_counter()),
            prompt_tokens=end.prompt_tokens,
            cached_tokens=end.cached_tokens,
            completion_tokens=end.completion_tokens,
            decoding=self.sequence.request.decoding,
        )


def _between(early: float | None, late: float | None) -> float | None:
    return None if early is None or late is None else round(late - early, 4)
