"""Timing of steps on this machine by their number of rows.

An engine times steps before its first request, while it has none, and now and then in between. For a model that was
read from files, the table is stored by files, code and number of threads: later starts begin with it, and time steps
only while there is no request.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import torch

from stretto.local_engine.choosing.sampling import most_probable
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.step_cost import StepCost, step_clock
from stretto.local_engine.kernels.compiling.store import fingerprint
from stretto.local_engine.log import log_event
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.kept_data import key_of, recall, remember
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.model.quantised.blocks import Blocks

_ROWS = (*range(1, 17), 20, 24, 32, 48, 64)  # every number of rows of a draft or a small batch
_TEXT = 16  # tokens: reading 64 took longer than everything that is timed before the first request
_ROUNDS = 6  # the fastest counts: the first step of a shape can be slower, and other programs slow down any step
_FIRST, _FIRST_ROUNDS = (*range(1, 9), 12, 16), 2  # rows of the first, quick table
_DEAR = 6.0  # steps of one row; beyond this, more rows are not measured, because they would not be drafted
_LIMIT_S = 4.0


def measure_step_cost(model: LoadedModel) -> StepCost:
    """Time steps of 1, 2, 3, ... 64 rows after a short text; the fastest of a few rounds counts.

    Provisional: it may change in any release.

    A step of multiple rows has a draft tree, because a tree's layout and mask are part of the cost. Each round times
    every number of rows, so that other programs slow all of them down alike. Timing ends early once rows are too
    expensive to be drafted, and after some seconds on slow machines.
    """
    with torch.inference_mode():
        (*_, table) = filter(None, measuring(model))
    return StepCost(table)


def measuring(model: LoadedModel) -> Generator[dict[int, float], None, None]:
    """Time steps like `measure_step_cost`, one forward at a time, so that requests can run in between.

    Call it only inside `torch.inference_mode`. It yields after each forward.

    Yields:
        milliseconds by number of rows after each round from the second one on; an empty table after other forwards.
    """
    longest = max(2, min(_TEXT, model.context_window // 2))
    device = model.device
    ids = torch.zeros(1, longest + _ROWS[-1], dtype=torch.long, device=device)
    positions = torch.arange(longest + _ROWS[-1], device=device)[None]
    text = [0] * (longest + 1)
    cache = KeyValueCache(1)
    model.forward(Rows(ids[:, :longest], positions[:, :longest], longest), cache, positions[0, :1])
    yield {}
    counts = [rows for rows in _ROWS if longest + rows <= model.context_window]
    times: dict[int, list[float]] = {rows: [] for rows in counts}
    spent_s, clock = 0.0, step_clock(device)
    for number in range(_ROUNDS):
        for rows in counts:
            if number < _FIRST_ROUNDS and rows not in _FIRST:
                continue
            tree = DraftTree()
            tree.add_path([0] * (rows - 1), [1.0] * (rows - 1))  # any model has a token 0
            began, start = time.perf_counter(), clock()
            logits = model.forward(flatten([text], [tree], device), cache, positions[0, :rows])
            most_probable(logits).tolist()
            times[rows].append(1e3 * (clock() - start))
            spent_s += time.perf_counter() - began
            if rows > 1 and times[rows][-1] > _DEAR * min(times[1]):
                break
            yield {}
        is_slow = spent_s > _LIMIT_S
        if number or is_slow:
            yield {rows: min(own) for rows, own in times.items() if own}
        if is_slow:
            return


_AT_FIRST_S = 0.5  # maximum before the first request: a large model's first answer would wait for the rest
_DELAY_S = 1.0  # before steps are timed between those of requests
_SHARE = 1 / 20  # of the requests' time that is spent on timing
_KIND = "steps"

_log = logging.getLogger(__package__)


class StepTimer:
    """Times the steps of a model, one forward at a time, until there is a table of their costs.

    All methods but `begin` are called in the engine's thread, inside `torch.inference_mode`.

    Args:
        model: model whose steps are timed.
        threads: maximum number of threads of a step.
        cost: receives the table.
        ended: called when there is no more to time, or timing failed.
    """

    def __init__(self, model: LoadedModel, threads: int, cost: StepCost, ended: Callable[[], None]) -> None:
        self._model = model
        self._threads = threads
        self._cost = cost
        self._ended = ended
        self._steps: Iterator[dict[int, float]] | None = None
        self._key = ""  # under which the table is stored
        self._table: dict[int, float] = {}  # table to be stored
        self._lacks_table = False  # an earlier table, if any, is of other code
        self._next = 0.0  # between two steps of requests

    @property
    def under_way(self) -> bool:
        """Whether steps are still to be timed."""
        return self._steps is not None

    def begin(self) -> None:
        """Begin timing all steps, again if they have been timed before."""
        self._steps, self._lacks_table, self._key = measuring(self._model), True, self._key_of_kept()
        for data in recall(_KIND, self._key) if self._key else ():
            with suppress(ValueError, TypeError, AttributeError, RecursionError):  # damage
                self._cost.fit({int(rows): float(ms) for rows, ms in json.loads(data).items()})
                self._lacks_table = False
        self._next = time.monotonic() + _DELAY_S

    def end(self) -> None:
        """Stop timing, and drop the reference to the engine."""
        self._steps, self._ended = None, lambda: None

    def before_the_first(self, closed: Callable[[], bool]) -> None:
        """Time steps briefly before the first request, which would otherwise run with guessed costs."""
        began = time.monotonic()
        while self.under_way and not (self._cost.measured or closed()):
            if time.monotonic() - began > _AT_FIRST_S:
                return
            self._one()

    def while_idle(self, idle: Callable[[], bool]) -> None:
        """Time one forward after the other, until all are timed or a request arrives."""
        while self.under_way and idle():
            self._one()

    def between_steps(self) -> None:
        """Occasionally time a forward between two steps of requests, until there is a table of the costs.

        This is for programs that send requests back to back, which leave no idle time.
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
        except Exception as error:  # noqa: BLE001 - for instance, memory ran out; whoever needs it next begins again
            log_event(_log, logging.DEBUG, "steps not timed", model=self._model.name, raised=error)
        self._steps = None
        self._ended()

    def _key_of_kept(self) -> str:
        """Return a key of what step times depend on; empty if they are not stored: on a GPU, or without model files."""
        model, forward = self._model, self._model.forward
        files = [model.file] if model.file else sorted(model.folder.glob("*.safetensors")) if model.folder else []
        if not files or model.device.type != "cpu":
            return ""
        about = [type(forward).__name__, str(model.dtype), model.compiled, self._threads, torch.get_num_threads()]
        if isinstance(forward, LlamaForward):
            products = forward.weights.layers[0].products.values()
            about += [forward.compiled is not None, *(each.nbytes for each in products if isinstance(each, Blocks))]
        try:
            return f"{[key_of(path) for path in files]} {about} {fingerprint()}"
        except OSError:
            return ""
