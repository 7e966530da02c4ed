"""CUDA graphs: a step's kernels are recorded once and started together ever after.

A step of a model with 32 layers starts some 500 kernels, and starting one takes the processor several microseconds:
longer than a GPU needs to read the weights of a small model, and much of what it needs for a large one. A recorded
step is started as a whole. It has fixed shapes and fixed memory: so rows are filled up to the next of a few numbers,
and keys and values stand in storage of a few fixed lengths, with a graph for each pair.

Only used on CUDA devices, and only where it is asked for: what is around the recording, the filling up, the storage
and who owns it, is tested on the CPU with a recorder that traces operations, but `cuda_recorder` itself has not been
run on a GPU yet. Therefore each recorded step is compared with the plain forward the first times it is repeated, and
whatever goes wrong ends all recording with a warning, and no answer.
"""

from __future__ import annotations

import logging
import weakref
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from stretto.local_engine.cache import KeyValueCache, Rows, Source
from stretto.local_engine.forward import Forward

__all__ = ["GraphedForward", "Recorder", "cuda_recorder"]

_ROWS = (1, 2, 4, 8, 16, 32, 64, 80)  # the last for 64 drafted rows and the first one
_SHORTEST = 512
_MOST_STEPS = 48
_CHECKS = 2  # the first may be right because everything is as it was while recording; the second has other rows
_FILLED = frozenset({"tokens", "positions", "extent", "slots", "ancestry"})
_HINTS = frozenset({"segments"})  # where it is set, the other fields say the same
_OTHERS = tuple(each.name for each in fields(Rows) if each.name not in _FILLED | _HINTS)
_log = logging.getLogger(__name__)

Recorder = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Runs a function of fixed tensors, and gives back what repeats its operations on the same tensors."""


@dataclass(slots=True)
class _Step:
    """A recorded step: where its input goes, and how it is started again."""

    rows: Rows
    replay: Callable[[], Tensor]
    checks: int = _CHECKS  # still to be made


@dataclass(slots=True)
class _Storage:
    """Keys and values of one sequence, and the steps that were recorded on them."""

    cache: KeyValueCache  # writes to this storage and no other
    owner: weakref.ref[KeyValueCache] | None = None
    steps: dict[int, _Step] = field(default_factory=dict)  # by rows

    @property
    def occupied(self) -> bool:
        """Whether a running sequence is in it."""
        owner = self.owner() if self.owner is not None else None
        return owner is not None and self.cache.shares(owner)


class GraphedForward:
    """Another forward, recorded; see `stretto.local_engine.forward.Forward`.

    Steps of one sequence are recorded when they first come. Prompts, batches, steps of more rows than the largest
    number, a sequence that comes while another one is in the storage, and one for which there is no room run as they
    would without. So do all, once a recording has failed, memory has run out, or a repeated step has given something
    else than the plain forward.

    Args:
        forward: must start the same operations whenever its shapes are the same, and read no tensor on the host.
        record: how a step is recorded.
        rows: numbers that rows are filled up to.
        shortest: slots of the shortest storage; each further one is twice as long.
        most_slots: of all storages together; where a new one would exceed them, those that no running sequence is in
            are given up, the least recently used one first.
        most_steps: recorded at a time; likewise.
        tolerance: how far a repeated step's logits may be from those of the plain forward, in standard deviations of
            these.
    """

    def __init__(
        self,
        forward: Forward,
        record: Recorder,
        *,
        rows: tuple[int, ...] = _ROWS,
        shortest: int = _SHORTEST,
        most_slots: int = 2**62,
        most_steps: int = _MOST_STEPS,
        tolerance: float = 0.5,
    ) -> None:
        self._forward = forward
        self.packs = bool(getattr(forward, "packs", False))  # batches are run by it
        self._record = record
        self._sizes = rows
        self._shortest = shortest
        self._most_slots = most_slots
        self._most_steps = most_steps
        self._tolerance = tolerance
        self._storages: dict[int, _Storage] = {}  # by slots, the least recently used first
        self._failed = False

    @property
    def plain(self) -> Forward:
        """What is recorded."""
        return self._forward

    @property
    def slots(self) -> int:
        """Of keys and values, held by all storages."""
        return sum(self._storages)

    @property
    def steps(self) -> int:
        """Recorded now."""
        return sum(len(storage.steps) for storage in self._storages.values())

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `stretto.local_engine.forward.Forward`."""
        count = rows.tokens.shape[1]
        whole = cache.batch == 1 and cache.allocated and len(keep) == count <= self._sizes[-1]
        # What rows may carry beside what is filled in here, a recorded step would not read.
        if self._failed or not whole or any(getattr(rows, name) is not None for name in _OTHERS):
            return self._forward(rows, cache, keep)
        size = self._sizes[bisect_left(self._sizes, count)]
        try:
            logits = self._repeat(rows, cache, keep, size)
        except (RuntimeError, MemoryError) as error:  # torch's own, for memory that ran out, is a RuntimeError
            # What is held of the sequence is where it was: only slots behind it were written to.
            self._give_up(f"a step of {size} rows failed: {error}")
            logits = None
        if logits is None:
            return self._forward(rows, cache, keep)
        cache.extent = rows.extent
        return logits

    def _repeat(self, rows: Rows, cache: KeyValueCache, keep: Tensor, size: int) -> Tensor | None:
        """Run the rows as a recorded step of ``size`` rows; None where there is no room for one."""
        count = rows.tokens.shape[1]
        held = rows.extent - count
        storage = self._settle(cache, held, held + size)
        if storage is None:
            return None
        step = storage.steps.get(size)
        if step is None and not self._room(storage, steps=1):
            return None
        beside = None
        if step is None or step.checks:
            beside = KeyValueCache.copied([Source(cache, 0, held)], rows.extent)
        if step is None:
            step = self._recorded(storage, rows, size)
        else:
            _fill(step.rows, rows)
        logits = step.replay()[:, :count].clone()  # the next step writes over the original
        if beside is None:
            return logits
        step.checks -= 1
        expected = self._forward(rows, beside, keep)
        if self._agree(logits, expected) and cache.equals(beside, held):
            return logits
        cache.settle(beside, 0)  # what stands in the storage is not to be trusted any more
        self._give_up(f"a recorded step of {size} rows gave something else than the same step without recording")
        return expected

    def _agree(self, logits: Tensor, expected: Tensor) -> bool:
        expected = expected.float()
        gap = (logits.float() - expected).abs().max() / expected.std().clamp_min(1e-6)
        return bool(gap < self._tolerance)  # NaN does not

    def _give_up(self, reason: str) -> None:
        _log.warning("CUDA graphs are not used from now on: %s", reason)
        self._failed = True
        self._storages.clear()

    def _room(self, own: _Storage | None = None, *, slots: int = 0, steps: int = 0) -> bool:
        """Whether so much more can be held; storages that nobody is in are given up for it, if need be."""
        if slots > self._most_slots:
            return False
        for length, storage in list(self._storages.items()):
            if self.slots + slots <= self._most_slots and self.steps + steps <= self._most_steps:
                break
            if storage is not own and not storage.occupied:
                del self._storages[length]
        return self.slots + slots <= self._most_slots and self.steps + steps <= self._most_steps

    def _settle(self, cache: KeyValueCache, held: int, extent: int) -> _Storage | None:
        """Put the first ``held`` slots into storage with room for ``extent``.

        None while another cache is in it, and where there is no room for a new one.
        """
        for slots, storage in self._storages.items():
            if slots >= extent and storage.cache.shares(cache):
                storage.owner = weakref.ref(cache)  # it may have come there from another cache that it took over
                return storage
        slots = self._shortest
        while slots < extent:
            slots *= 2
        if slots not in self._storages:
            if not self._room(slots=slots):
                return None
            self._storages[slots] = _Storage(cache.like(slots))
        storage = self._storages[slots]
        if storage.occupied:
            return None
        self._storages[slots] = self._storages.pop(slots)  # the last one used
        cache.settle(storage.cache, held)
        storage.owner = weakref.ref(cache)
        return storage

    def _recorded(self, storage: _Storage, rows: Rows, size: int) -> _Step:
        """Record a step."""
        device, slots = rows.tokens.device, storage.cache.capacity
        still = _blank(size, slots, device)
        _fill(still, rows)
        keep = torch.arange(size, device=device)
        step = _Step(still, self._record(lambda: self._forward(still, storage.cache, keep)))
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


def cuda_recorder() -> Recorder:
    """Make what records on a CUDA device; all it records shares the memory for what is computed on the way.

    Two runs before each recording let the libraries choose their kernels and allocate their workspaces, on a stream of
    their own, as torch asks for. They write the same keys and values to the same slots each time.
    """
    pool = torch.cuda.graph_pool_handle()

    def record(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # not typed there
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # other threads may use the GPU
            out = run()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay

    return record
