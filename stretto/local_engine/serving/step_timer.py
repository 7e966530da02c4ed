"""When the steps of an engine are timed: before its first request, while it has none, and now and then in between.

The table of a model that was read from files is kept for these, this code and so many threads: later starts begin with
it, and time steps only while there is no request.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import torch

from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.kernels.compiling.store import fingerprint
from stretto.local_engine.log import log_event
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.kept_data import key_of, recall, remember
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.local_engine.serving.step_timing import measuring

__all__ = ["StepTimer"]

_AT_FIRST_S = 0.5  # before the first request, at most: a large model's first answer would wait for the rest
_DELAY_S = 1.0  # before steps are timed between those of requests, and
_SHARE = 1 / 20  # of their time for it
_KIND = "steps"

_log = logging.getLogger(__package__)


class StepTimer:
    """Times the steps of a model, one forward after the other, until there is a table of their costs.

    Everything but `begin` is called in the engine's thread, inside `torch.inference_mode`.

    Args:
        model: whose steps are timed.
        threads: for one of them at most.
        cost: is told the table.
        ended: called when there is no more to time.
    """

    def __init__(self, model: LoadedModel, threads: int, cost: StepCost, ended: Callable[[], None]) -> None:
        self._model = model
        self._threads = threads
        self._cost = cost
        self._ended = ended
        self._steps: Iterator[dict[int, float]] | None = None
        self._key = ""  # of what is kept, and
        self._table: dict[int, float] = {}  # what will be
        self._lacks_table = False  # what was measured before, if anything, is of other code
        self._next = 0.0  # between two steps of requests

    @property
    def under_way(self) -> bool:
        """Whether steps are still to be timed."""
        return self._steps is not None

    def begin(self) -> None:
        """Time all steps, once more where they have been timed before."""
        self._steps, self._lacks_table, self._key = measuring(self._model), True, self._key_of_kept()
        for data in recall(_KIND, self._key) if self._key else ():
            with suppress(ValueError, TypeError, AttributeError, RecursionError):  # damage
                self._cost.fit({int(rows): float(ms) for rows, ms in json.loads(data).items()})
                self._lacks_table = False
        self._next = time.monotonic() + _DELAY_S

    def end(self) -> None:
        """Time no more, and let go of the engine, which this refers to."""
        self._steps, self._ended = None, lambda: None

    def before_the_first(self, closed: Callable[[], bool]) -> None:
        """Time each number of rows before the first request, which would else run with guesses: not for long."""
        began = time.monotonic()
        while self.under_way and not (self._cost.measured or closed()):
            if time.monotonic() - began > _AT_FIRST_S:
                return
            self._one()

    def while_idle(self, idle: Callable[[], bool]) -> None:
        """Time one forward after the other, until all are timed or a request comes."""
        while self.under_way and idle():
            self._one()

    def between_steps(self) -> None:
        """Time a forward between two steps of requests, now and then, until there is a table of the costs.

        A program that asks one question after the other leaves no time for it in between.
        """
        if self.under_way and self._lacks_table and time.monotonic() >= self._next:
            self._one()

    def _one(self) -> None:
        assert self._steps is not None  # noqa: S101 - for the type checker: something is under way
        began = time.monotonic()
        try:
            table = next(self._steps, None)
            ended = time.monotonic()
            self._next = ended + (ended - began) / _SHARE
            if table:
                self._cost.fit(table)
                self._table, self._lacks_table = table, False
            if table is not None:
                return
            if self._key and self._table:
                remember(_KIND, self._key, json.dumps(self._table).encode())
        except Exception as error:  # noqa: BLE001 - for instance, memory ran out; the next one that needs it begins again
            log_event(_log, logging.DEBUG, "steps not timed", model=self._model.name, raised=error)
        self._steps = None
        self._ended()

    def _key_of_kept(self) -> str:
        """What the times of steps depend on; empty where they are not kept: on a GPU, and for a model without files."""
        model, forward = self._model, self._model.forward
        files = [model.file] if model.file else sorted(model.folder.glob("*.safetensors")) if model.folder else []
        if not files or model.device.type != "cpu":
            return ""
        about = [type(forward).__name__, str(model.dtype), model.compiled, self._threads, torch.get_num_threads()]
        if isinstance(forward, LlamaForward):
            held = forward.layers[0].products.values()
            about += [forward.compiled is not None, *(each.nbytes for each in held if isinstance(each, Blocks))]
        try:
            return f"{[key_of(path) for path in files]} {about} {fingerprint()}"
        except OSError:
            return ""
