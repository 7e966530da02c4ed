"""CUDA graphs: a step's kernels are recorded once and started together ever after.

A step of a model with 32 layers starts some 500 kernels, and starting one takes the processor several microseconds:
longer than a GPU needs to read the weights of a small model, and much of what it needs for a large one. A recorded
step is started as a whole. It has fixed shapes and fixed memory: so rows are filled up to the next of a few numbers,
and keys and values stand in storage of a few fixed lengths, with a graph for each pair.

Only used on CUDA devices. What is around the recording, the filling up, the storage and who owns it, is tested on the
CPU with a recorder that traces operations; `record_cuda` itself has not been run on a GPU yet.
"""

from __future__ import annotations

import logging
import weakref
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.forward import Forward

__all__ = ["GraphedForward", "Recorder", "record_cuda"]

_ROWS = (1, 2, 4, 8, 16, 32, 64, 80)  # the last for 64 drafted rows and the first one
_SHORTEST = 512
_FILLED = frozenset({"tokens", "positions", "extent", "slots", "ancestry"})
_OTHERS = tuple(each.name for each in fields(Rows) if each.name not in _FILLED)
_log = logging.getLogger(__name__)

Recorder = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Runs a function of fixed tensors, and gives back what repeats its operations on the same tensors."""


@dataclass(slots=True)
class _Step:
    """A recorded step: where its input goes, and how it is started again."""

    rows: Rows
    replay: Callable[[], Tensor]


@dataclass(slots=True)
class _Storage:
    """Keys and values of one sequence, and the steps that were recorded on them."""

    cache: KeyValueCache  # writes to this storage and no other
    owner: weakref.ref[KeyValueCache] | None = None
    steps: dict[int, _Step] = field(default_factory=dict)  # by rows


class GraphedForward:
    """Another forward, recorded; see `stretto.local_engine.forward.Forward`.

    Steps of one sequence are recorded when they first come. Prompts, batches, steps of more rows than the largest
    number, and a sequence that comes while another one is in the storage run as they would without. So do all, once a
    recording has failed.

    Args:
        forward: must start the same operations whenever its shapes are the same, and read no tensor on the host.
        record: how a step is recorded.
        rows: numbers that rows are filled up to.
        shortest: slots of the shortest storage; each further one is twice as long.
    """

    def __init__(
        self, forward: Forward, record: Recorder, *, rows: tuple[int, ...] = _ROWS, shortest: int = _SHORTEST
    ) -> None:
        self._forward = forward
        self.packs = bool(getattr(forward, "packs", False))  # batches are run by it
        self._record = record
        self._sizes = rows
        self._shortest = shortest
        self._storages: dict[int, _Storage] = {}  # by slots
        self._failed = False

    @property
    def plain(self) -> Forward:
        """What is recorded."""
        return self._forward

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `stretto.local_engine.forward.Forward`."""
        count = rows.tokens.shape[1]
        whole = cache.batch == 1 and cache.allocated and len(keep) == count <= self._sizes[-1]
        # What rows may carry beside what is filled in here, a recorded step would not read.
        if self._failed or not whole or any(getattr(rows, name) is not None for name in _OTHERS):
            return self._forward(rows, cache, keep)
        size = self._sizes[bisect_left(self._sizes, count)]
        held = rows.extent - count
        storage = self._settle(cache, held, held + size)
        if storage is None:
            return self._forward(rows, cache, keep)
        step = storage.steps.get(size)
        if step is None:
            step = self._recorded(storage, rows, size)
            if step is None:
                return self._forward(rows, cache, keep)
        else:
            _fill(step.rows, rows)
        logits = step.replay()[:, :count].clone()  # the next step writes over the original
        cache.extent = rows.extent
        return logits

    def _settle(self, cache: KeyValueCache, held: int, extent: int) -> _Storage | None:
        """Put the first ``held`` slots into storage with room for ``extent``; None while another cache is in it."""
        for slots, storage in self._storages.items():
            if slots >= extent and storage.cache.shares(cache):
                storage.owner = weakref.ref(cache)  # it may have come there from another cache that it took over
                return storage
        slots = self._shortest
        while slots < extent:
            slots *= 2
        if slots not in self._storages:
            self._storages[slots] = _Storage(cache.like(slots))
        storage = self._storages[slots]
        owner = storage.owner() if storage.owner is not None else None
        if owner is not None and storage.cache.shares(owner):
            return None
        cache.settle(storage.cache, held)
        storage.owner = weakref.ref(cache)
        return storage

    def _recorded(self, storage: _Storage, rows: Rows, size: int) -> _Step | None:
        """Record a step; None where that fails, and from then on nothing is recorded or repeated."""
        device, slots = rows.tokens.device, storage.cache.capacity
        still = _blank(size, slots, device)
        _fill(still, rows)
        keep = torch.arange(size, device=device)
        try:
            step = _Step(still, self._record(lambda: self._forward(still, storage.cache, keep)))
        except RuntimeError as error:
            _log.warning("CUDA graphs are not used: recording a step of %s rows failed: %s", size, error)
            self._failed = True
            return None
        storage.steps[size] = step
        return step


def _blank(size: int, slots: int, device: torch.device) -> Rows:
    """Rows whose tensors stay where they are, and which see all slots that the mask lets them see."""
    places = torch.zeros(1, size, dtype=torch.long, device=device)
    if size == 1:
        return Rows(places.clone(), places, slots)
    seen = torch.zeros(1, size, size, dtype=torch.bool, device=device)
    return Rows(places.clone(), places.clone(), slots, slots=places, ancestry=seen)


def _fill(still: Rows, rows: Rows) -> None:
    """Copy rows to where a recorded step reads them, and fill up with rows that only see themselves.

    Those stand in the slots behind the others, where nothing looks until they are written again.
    """
    count, size = rows.tokens.shape[1], still.tokens.shape[1]
    still.tokens[:, :count].copy_(rows.tokens)
    still.positions[:, :count].copy_(rows.positions)
    if still.slots is None or still.ancestry is None:
        return
    # Rows that follow each other, without a tree, descend from all before them.
    first = rows.positions[:, :1] if rows.slots is None else rows.slots[:, :1]
    torch.add(first, torch.arange(size, device=first.device), out=still.slots)
    if count < size:
        still.tokens[:, count:].zero_()
        still.positions[:, count:].copy_(still.slots[:, count:])
    own = torch.eye(size, dtype=torch.bool, device=first.device)
    still.ancestry.copy_(own)
    if rows.ancestry is not None:
        still.ancestry[:, :count, :count].copy_(rows.ancestry)
    else:
        still.ancestry[:, :count, :count].copy_(torch.ones_like(own[:count, :count]).tril_())


def record_cuda(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Record on a CUDA device.

    Two runs before it let the libraries choose their kernels and allocate their workspaces, on a stream of their own,
    as torch asks for. They write the same keys and values to the same slots each time.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # not typed there
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may go on using the GPU
        out = run()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay
