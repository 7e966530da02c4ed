"""The forward of a model over several processes, as the engine sees it."""

from __future__ import annotations

import logging
import time

from torch import Tensor

from stretto.local_engine.log import log_event
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.process_layout import ProcessLayout
from stretto.local_engine.research.several_devices.mirror import Mirror
from stretto.local_engine.research.several_devices.part import asked
from stretto.local_engine.research.several_devices.processes import Processes

__all__ = ["SharedForward"]

_log = logging.getLogger(__package__)

_TOLD = 1000  # forwards between two lines of the log


class SharedForward:
    """Lets all processes run a forward; see `stretto.local_engine.model.forward.forward.Forward`.

    The caches that it is given only count sequences and slots: keys and values are in the processes.

    Args:
        processes: with the model loaded.
        layout: how it is divided.
        alone: see `Forward`.
        switch: see `Forward`.
        token_size: bytes of the keys and values of one token, over all processes.

    Attributes:
        busy_s: seconds in which stages of a pipeline ran layers, all added up.
        span_s: seconds of the same forwards, times the stages.
    """

    packs = False
    is_exact = False
    longest: int | None = None

    def __init__(
        self, processes: Processes, layout: ProcessLayout, *, alone: bool, switch: int | None, token_size: int
    ) -> None:
        self._processes, self._layout = processes, layout
        self.alone, self.switch = alone, switch
        self._mirror = Mirror(token_size)
        self.busy_s, self.span_s = 0.0, 0.0
        self._forwards = 0

    @property
    def bubble(self) -> float | None:
        """The share of time in which stages of a pipeline had nothing to do; ``None`` without a pipeline."""
        return 1 - self.busy_s / self.span_s if self.span_s else None

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `Forward`. Raises `BackendError` if a process has ended; then all have."""
        number = self._mirror.number(cache)
        cache.begin(rows)
        message = asked(rows, number, self._mirror.taken(), keep)
        began = time.perf_counter()
        answers = self._processes.ask(*message)
        if self._layout.pipeline > 1:
            self.span_s += (time.perf_counter() - began) * len(answers)
            self.busy_s += sum(spent["busy_s"] for spent, _ in answers)
            self._forwards += 1
            if self._forwards % _TOLD == 0:
                self._tell()
        return answers[self._layout.speaker][1]["logits"]

    def close(self) -> None:
        """End the processes."""
        if self.span_s:
            self._tell()
        self._processes.end()

    def give_up(self) -> None:
        """End the processes at once, because a forward hangs. From any thread; the forward raises `BackendError`."""
        self._processes.give_up()

    def _tell(self) -> None:
        bubble = self.bubble or 0.0
        log_event(_log, logging.INFO, "pipeline", forwards=self._forwards, bubble=round(bubble, 3))
