"""CUDA graphs: the kernels of a step are recorded once, and launched together from then on.

A step of a model with 32 layers launches some 500 kernels, and each launch takes the CPU several microseconds: longer
in total than a GPU needs to read the weights of a small model, and a large part of that for a large one. A recorded
step is launched as a whole. It has fixed shapes and fixed memory. So sequences and rows are padded to one of a few
counts, keys and values are kept in storage of a few fixed lengths, and there is a graph for each combination.

Everything around the recording is tested on the CPU, with a recorder that knows as little about tensors as a CUDA graph
does: their addresses. `cuda_recorder` records on a GPU.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import LayerStates, Rows
from stretto.values.errors import SettingsError

_ROWS = (1, 2, 4, 8, 16, 32, 64, 80)  # the last for 64 drafted rows and the first one
_BATCHES = (1, 2, 4, 8, 16)
_TOGETHER = 80  # rows of all sequences; beyond that, leaving out padding gains more than recording
_SHORTEST = 512
_MOST_STEPS = 128
_CHECKS = 2  # the first repeats the recorded rows and proves little; the second has other rows
_FILLED = frozenset({"tokens", "positions", "kv_len", "slots", "ancestry"})
_HINTS = frozenset({"segments", "real", "wanted"})  # the step is the same without them
_HANDED_OUT = frozenset({"states"})
_OTHERS = tuple(each.name for each in fields(Rows) if each.name not in _FILLED | _HINTS | _HANDED_OUT)
_TEXT = 8  # tokens before a step that is recorded in advance
_SHARE = 4  # recorded steps use at most one in four of the slots that fit into memory
_SECONDS = 8.0
_USUAL, _EARLY = 4, 2  # usual lengths of one sequence, and those for which batches are recorded in advance
_log = logging.getLogger(__name__)

Recorder = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Runs a function of fixed tensors, and returns one that replays its operations on the same tensors.

The caller keeps these tensors alive.
"""


@dataclass(slots=True)
class _Step:
    """A recorded step.

    Attributes:
        rows: its input.
        run: the recorded function. It keeps every tensor alive that the recording reads.
        replay: launches the recording again.
        checks: number of checks left.
    """

    rows: Rows
    run: Callable[[], Tensor]
    replay: Callable[[], Tensor]
    checks: int = _CHECKS


@dataclass(slots=True)
class _Storage:
    """Keys and values of some sequences, and the steps recorded on them."""

    cache: KeyValueCache  # writes to this storage only
    owner: weakref.ref[KeyValueCache] | None = None
    steps: dict[tuple[int, frozenset[int]], _Step] = field(default_factory=dict)  # by rows, and layers with states

    @property
    def occupied(self) -> bool:
        """Whether running sequences are in it."""
        owner = self.owner() if self.owner is not None else None
        return owner is not None and self.cache.shares(owner)


class GraphedForward:
    """Records and replays the steps of another forward; see `stretto.local_engine.model.forward.forward.Forward`.

    Steps are recorded by `warm_up`, or when they first occur. The plain forward runs prompts, steps of more rows than
    the largest count, sequences that come while the storage is occupied, and those for which memory is short. It runs
    everything once a recording has failed, memory has run out, or a replayed step has given a different result.

    Args:
        forward: must launch the same operations for the same shapes, and read no tensor on the host.
        record: records a step.
        rows: counts to which the rows of each sequence are padded.
        batches: counts to which the sequences are padded.
        together: maximum total rows of multiple sequences.
        shortest: slots of the shortest storage; each further one is twice as long.
        most_slots: of all storages and sequences together; for a new storage, those without running sequences are
            dropped, the least recently used one first.
        most_steps: maximum number of recorded steps, enforced in the same way.
        tolerance: maximum difference of the logits of a replayed step from those of the plain forward, in standard
            deviations.
    """

    def __init__(
        self,
        forward: Forward,
        record: Recorder,
        *,
        rows: tuple[int, ...] = _ROWS,
        batches: tuple[int, ...] = _BATCHES,
        together: int = _TOGETHER,
        shortest: int = _SHORTEST,
        most_slots: int = 2**62,
        most_steps: int = _MOST_STEPS,
        tolerance: float = 0.5,
    ) -> None:
        self.plain = forward
        """Runs the steps that are not recorded."""
        self.packs, self.alone = forward.packs, forward.alone
        self.switch, self.longest, self.is_exact = forward.switch, forward.longest, False
        self._record = record
        self._rows = rows
        self._batches = batches
        self._together = together
        self._shortest = shortest
        self._most_slots = most_slots
        self._most_steps = most_steps
        self._tolerance = tolerance
        self._storages: dict[tuple[int, int], _Storage] = {}  # by sequences and slots, the least recently used first
        self.works = True
        """Whether steps are recorded and replayed: nothing has failed so far."""

    @property
    def slots(self) -> int:
        """Slots of keys and values in all storages, over all sequences."""
        return sum(batch * slots for batch, slots in self._storages)

    @property
    def steps(self) -> int:
        """Number of recorded steps."""
        return sum(len(storage.steps) for storage in self._storages.values())

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        count = rows.tokens.shape[1]
        shape = self._padded(cache.batch, count) if cache.allocated and len(keep) == count else None
        # A recorded step does not read the other fields of rows.
        if not self.works or shape is None or any(getattr(rows, name) is not None for name in _OTHERS):
            return self.plain(rows, cache, keep)
        logits = self._attempt(rows, cache, keep, shape)
        if logits is None:
            return self.plain(rows, cache, keep)
        cache.kv_len = rows.kv_len
        return logits

    def warm_up(self, device: torch.device, *, longest: int, seconds: float) -> None:
        """Record steps before requests need them: those of one sequence first, short ones before long ones.

        Only inside `torch.inference_mode`. If memory or time is short, a step is recorded when it first occurs.

        Args:
            device: of the model.
            longest: maximum slots of a sequence.
            seconds: after which no further step is recorded.
        """
        until = time.monotonic() + seconds
        for batch, size, slots in self._likely(longest):
            if not self.works or time.monotonic() > until:
                break
            new = 0 if (batch, slots) in self._storages else batch * slots
            # A single sequence must find room when it grows.
            most = self._most_slots if batch == 1 else self._most_slots // 2
            if self.slots + new <= most and self.steps < self._most_steps:
                self._warm_up(batch, size, slots, device)

    def _likely(self, longest: int) -> Iterator[tuple[int, int, int]]:
        """Yield sequences, rows and slots of likely steps, the likeliest first."""
        lengths = [self._shortest]
        while lengths[-1] < longest:
            lengths.append(2 * lengths[-1])
        alone = [(1, size, slots) for slots in lengths for size in self._rows if size < slots]
        yield from (each for each in alone if each[2] in lengths[:_USUAL])
        for slots in lengths[:_EARLY]:
            for size in self._rows:
                for batch in self._batches[1:]:
                    if self._padded(batch, size) is not None:
                        yield batch, size, slots
        yield from (each for each in alone if each[2] not in lengths[:_USUAL])

    def _warm_up(self, batch: int, size: int, slots: int, device: torch.device) -> None:
        cache, known = KeyValueCache(batch), min(_TEXT, slots - size)
        self.plain(_sample_rows(batch, known, 0, device), cache, torch.arange(known, device=device)[-1:])
        for check in range(_CHECKS):
            count = max(size - check, 1)
            rows = _sample_rows(batch, count, known - check, device)
            if self._attempt(rows, cache, torch.arange(count, device=device), (batch, size), slots) is None:
                break

    def _padded(self, batch: int, count: int) -> tuple[int, int] | None:
        """Return sequences and rows of the recorded step to which this one is padded; None if it is too large."""
        if batch > self._batches[-1] or count > self._rows[-1]:
            return None
        batch = self._batches[bisect_left(self._batches, batch)]
        count = self._rows[bisect_left(self._rows, count)]
        return (batch, count) if batch == 1 or batch * count <= self._together else None

    def _attempt(
        self, rows: Rows, cache: KeyValueCache, keep: Tensor, shape: tuple[int, int], slots: int = 0
    ) -> Tensor | None:
        """Run the rows as a recorded step; None if memory is short, or it fails."""
        try:
            return self._repeat(rows, cache, keep, shape, slots)
        except (RuntimeError, MemoryError) as error:  # torch's out-of-memory error is a RuntimeError
            # The keys and values of the sequences are intact: only slots after them were written to.
            self._give_up(f"{_named(*shape)} failed: {error}")
            return None

    def _repeat(
        self, rows: Rows, cache: KeyValueCache, keep: Tensor, shape: tuple[int, int], slots: int
    ) -> Tensor | None:
        (batch, count), (lines, size) = rows.tokens.shape, shape
        known = rows.kv_len - count
        storage = self._settle(cache, lines, known, max(known + size, slots))
        if storage is None:
            return None
        step = storage.steps.get((size, _layers(rows)))
        if step is None and not self._room(storage, steps=1):
            return None
        copy = None
        if step is None or step.checks:
            copy = KeyValueCache.copied([Source(cache, number, known) for number in range(batch)], rows.kv_len)
        if step is None:
            step = self._recorded(storage, rows, size)
        else:
            _fill_rows(step.rows, rows)
        logits = step.replay()[:batch, :count].clone()  # the next step overwrites the original
        if rows.states is not None and step.rows.states is not None:
            found = step.rows.states.found
            rows.states.found = {layer: states[:batch, :count].clone() for layer, states in found.items()}
        if copy is None:
            return logits
        step.checks -= 1
        expected = self.plain(rows, copy, keep)
        written = int((rows.positions if rows.slots is None else rows.slots).min())
        if self._agree(logits, expected, rows.real) and cache.equals(copy, written):
            return logits
        cache.settle(copy, 0)  # the storage cannot be trusted any more
        self._give_up(f"{_named(*shape)}, recorded, gave a different result than the same step without recording")
        return expected

    def _agree(self, logits: Tensor, expected: Tensor, real: Tensor | None) -> bool:
        ours, theirs = logits.flatten(0, 1).float(), expected.flatten(0, 1).float()
        if real is not None:  # the plain forward leaves out padding
            ours, theirs = ours[real], theirs[real]
        gap = (ours - theirs).abs().max() / theirs.std().clamp_min(1e-6)
        return bool(gap < self._tolerance)  # False for NaN

    def _give_up(self, reason: str) -> None:
        _log.warning("CUDA graphs are not used from now on: %s", reason)
        self.works = False
        self._storages.clear()

    def _room(self, own: _Storage | None = None, *, slots: int = 0, steps: int = 0) -> bool:
        """Return whether this much more fits; storages without running sequences are dropped to make room."""
        if slots > self._most_slots:
            return False
        for key, storage in list(self._storages.items()):
            if self.slots + slots <= self._most_slots and self.steps + steps <= self._most_steps:
                break
            if storage is not own and not storage.occupied:
                del self._storages[key]
        return self.slots + slots <= self._most_slots and self.steps + steps <= self._most_steps

    def _settle(self, cache: KeyValueCache, lines: int, known: int, kv_len: int) -> _Storage | None:
        """Move the first ``known`` slots into storage for ``lines`` sequences of ``kv_len`` slots.

        None while another cache occupies it, and if memory for a new one is short.
        """
        for (batch, slots), storage in self._storages.items():
            if batch == lines and slots >= kv_len and storage.cache.shares(cache):
                storage.owner = weakref.ref(cache)  # the cache may have got there by joining another one
                return storage
        slots = self._shortest
        while slots < kv_len:
            slots *= 2
        key = lines, slots
        if key not in self._storages:
            if not self._room(slots=lines * slots):
                return None
            self._storages[key] = _Storage(cache.new_empty(lines, slots))
        storage = self._storages[key]
        if storage.occupied:
            return None
        self._storages[key] = self._storages.pop(key)  # the last one used
        cache.settle(storage.cache, known)
        storage.owner = weakref.ref(cache)
        return storage

    def _recorded(self, storage: _Storage, rows: Rows, size: int) -> _Step:
        device, cache = rows.tokens.device, storage.cache
        fixed = _blank_rows(cache.batch, size, cache.capacity, device)
        if rows.states is not None:
            fixed = replace(fixed, states=LayerStates(rows.states.layers))
        _fill_rows(fixed, rows)
        keep = torch.arange(size, device=device)

        def run() -> Tensor:
            return self.plain(fixed, cache, keep)

        step = storage.steps[size, _layers(rows)] = _Step(fixed, run, self._record(run))
        return step


def _layers(rows: Rows) -> frozenset[int]:
    """Return the layers whose states a step returns."""
    return frozenset() if rows.states is None else rows.states.layers


def _named(batch: int, rows: int) -> str:
    return f"a step of {rows} rows" if batch == 1 else f"a step of {batch} sequences with {rows} rows each"


_one_at_a_time = threading.Lock()  # torch allows one recording per process at a time


def cuda_recorder(device: torch.device) -> Recorder:
    """Create a recorder for a CUDA device. All its recordings share the memory for intermediate results.

    Two runs before each recording let the libraries choose their kernels and allocate their workspaces, on a separate
    stream, as torch requires. They write the same keys and values to the same slots each time.
    """
    graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()

    def record(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        with _one_at_a_time, torch.cuda.device(device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # untyped in torch
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    run()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # The memory is freed with the last graph that uses it; after that nothing can be recorded into it.
            living = next(iter(graphs), None)
            pool = torch.cuda.graph_pool_handle() if living is None else living.pool()
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # other threads may use the GPU
                out = run()
            graphs.add(graph)

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay

    return record


def _blank_rows(batch: int, count: int, slots: int, device: torch.device) -> Rows:
    """Create empty rows for a recorded step; multiple rows of a sequence are a tree."""
    tokens = torch.zeros(batch, count, dtype=torch.long, device=device)
    if count == 1:
        return Rows(tokens, torch.zeros_like(tokens), slots)
    ancestry = torch.zeros(batch, count, count, dtype=torch.bool, device=device)
    return Rows(tokens, torch.zeros_like(tokens), slots, slots=torch.zeros_like(tokens), ancestry=ancestry)


def _fill_rows(fixed: Rows, rows: Rows) -> None:
    """Copy rows to where a recorded step reads them, and pad them with rows that see only themselves.

    Padding is written to the slots after the other rows of a sequence, which are overwritten before a row sees them,
    and to sequences after the existing ones.
    """
    (batch, count), (_, size) = rows.tokens.shape, fixed.tokens.shape
    filled_up = rows.tokens.shape != fixed.tokens.shape
    if filled_up:
        fixed.tokens.zero_()
    fixed.tokens[:batch, :count].copy_(rows.tokens)
    if fixed.slots is None or fixed.ancestry is None:
        fixed.positions[batch:].zero_()
        fixed.positions[:batch].copy_(rows.positions)
        return
    # Consecutive rows without a tree descend from all rows before them.
    first = rows.positions[:, :1] if rows.slots is None else rows.slots[:, :1]
    steps = torch.arange(size, device=first.device)
    fixed.slots[batch:].copy_(steps)
    fixed.slots[:batch].copy_(first + steps)
    if filled_up:
        fixed.positions.copy_(fixed.slots)
    fixed.positions[:batch, :count].copy_(rows.positions)
    fixed.ancestry.copy_(torch.eye(size, dtype=torch.bool, device=first.device))
    fixed.ancestry[:batch, :count, :count].copy_(
        _chain(count, first.device) if rows.ancestry is None else rows.ancestry
    )


def _sample_rows(batch: int, count: int, start: int, device: torch.device) -> Rows:
    """Create a trial step: one row of each sequence, or a draft whose last node is a second child of the root.

    ``start``: slot and position of the first row.
    """
    steps = torch.arange(count, device=device)
    tokens = (steps + start).expand(batch, count) + torch.arange(batch, device=device)[:, None]
    positions = (steps + start).expand(batch, count).clone()
    if count == 1:
        return Rows(tokens, positions, start + count)
    slots, ancestry = positions.clone(), _chain(count, device).expand(batch, count, count).clone()
    if count > 2:
        ancestry[:, -1, 1:-1] = False
        positions[:, -1] = start + 1
    return Rows(tokens, positions, start + count, slots=slots, ancestry=ancestry)


def _chain(count: int, device: torch.device) -> Tensor:
    return torch.ones(count, count, dtype=torch.bool, device=device).tril_()


def refuse_elsewhere(wanted: bool | None, device: torch.device) -> None:
    """Raise `SettingsError` if recording is requested on a device without CUDA graphs."""
    if wanted and device.type != "cuda":
        raise SettingsError(f"cuda_graphs=True cannot be used on {device}. Leave it out, or choose device='cuda'.")


def recorded(
    forward: Forward,
    device: torch.device,
    *,
    wanted: bool | None,
    tolerance: float,
    slots: int,
    longest: int,
    record: Recorder | None = None,
    seconds: float = _SECONDS,
) -> tuple[Forward, int]:
    """Record the steps of a forward, unless that is disabled or fails.

    Args:
        forward: of the model; only the lean one is recorded.
        device: of the model.
        wanted: the user's choice; ``None`` records on a CUDA device.
        tolerance: maximum difference of logits, in standard deviations.
        slots: of keys and values that fit into memory; a quarter is reserved.
        longest: maximum slots of one sequence.
        record: the recorder, if not CUDA graphs.
        seconds: after which steps are only recorded when they first occur.

    Returns:
        the forward to use, and how many slots are left for others.
    """
    if wanted is False or device.type != "cuda":
        return forward, slots
    if not isinstance(forward, LlamaForward):
        _log.log(
            logging.WARNING if wanted else logging.INFO,
            "CUDA graphs are not used: only models of the Llama family are recorded",
        )
        return forward, slots
    reserved = slots // _SHARE
    graphed = GraphedForward(forward, record or cuda_recorder(device), most_slots=reserved, tolerance=tolerance)
    with torch.inference_mode():
        graphed.warm_up(device, longest=longest, seconds=seconds)
    return (graphed, slots - reserved) if graphed.works else (forward, slots)
