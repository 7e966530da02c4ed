"""The key-value cache: rows write to its slots by index; see `stretto.local_engine.model.forward.rows`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.model.forward.rows import Rows

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Source:
    """Where the keys and values of a prompt's first tokens can be copied from."""

    cache: KeyValueCache
    sequence: int
    length: int


class KeyValueCache:
    """Keys and values of a batch of sequences, one slot per position.

    Every sequence starts at slot 0 whatever its length. Nothing is padded on the left, and nothing has to be deleted:
    slots after the end of a sequence contain old values that every mask hides. Layers are allocated when they are first
    written, so shapes can differ from layer to layer.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.capacity = 0
        self.kv_len = 0
        self._keys: list[Tensor] = []  # per layer # [batch, slots, num_kv_heads, head_dim]
        self._values: list[Tensor] = []
        self._targets = torch.empty(0, dtype=torch.long)  # [batch * rows], into batch and slots as one axis
        self._written = slice(None)  # sequences of the current rows
        self._first: Callable[[], Tensor | None] = lambda: None  # the first layer's keys when these were looked up:
        self._addresses = np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def slots(self) -> int:
        """Slots that are allocated, over all sequences."""
        return self.batch * self.capacity

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of a slot of one sequence, in all layers."""
        return sum(layer.element_size() * layer.shape[2:].numel() for layer in (*self._keys, *self._values))

    def begin(self, rows: Rows, *, packed: bool = False, sequence: int | None = None) -> None:
        """Allocate the slots of ``rows``, to which the coming forward writes.

        Args:
            rows: of all sequences.
            packed: the forward will write the real rows only, concatenated.
            sequence: all rows are of this sequence, and the writes return only this one.
        """
        self._reach(rows.kv_len)
        self._written = slice(None) if sequence is None else slice(sequence, sequence + 1)
        slots = rows.positions if rows.slots is None else rows.slots
        if sequence is not None:
            slots = slots + sequence * self.capacity
        elif self.batch > 1:
            slots = slots + (torch.arange(self.batch, device=slots.device) * self.capacity)[:, None]
        self._targets = slots.reshape(-1)
        if rows.real is not None and packed:
            self._targets = self._targets[rows.real]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of the current rows, and return those of all slots in use.

        Args:
            layer: number of the layer; the first forward writes the layers in order.
            keys: # [batch, rows, num_kv_heads, head_dim]
            values: like ``keys``; its head_dim may differ.

        Returns:
            views # [batch, kv_len, num_kv_heads, head_dim]
        """
        if layer == len(self._keys):
            # Zeros, because a masked slot has weight 0, and 0 times NaN would be NaN.
            self._keys.append(keys.new_zeros(self.batch, self.capacity, *keys.shape[2:]))
            self._values.append(values.new_zeros(self.batch, self.capacity, *values.shape[2:]))
        stored_keys, stored_values = self._keys[layer], self._values[layer]
        stored_keys.flatten(0, 1).index_copy_(0, self._targets, keys.flatten(0, 1))
        stored_values.flatten(0, 1).index_copy_(0, self._targets, values.flatten(0, 1))
        return stored_keys[self._written, : self.kv_len], stored_values[self._written, : self.kv_len]

    def addresses(
        self, kv_len: int, layers: int, shape: tuple[int, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Allocate ``kv_len`` slots of float32 and return their addresses, for compiled code that writes to them.

        Args:
            kv_len: slots in use after writing.
            layers: number of layers of the model.
            shape: num_kv_heads and head_dim.

        Returns:
            addresses of the keys and of the values # [layers]
        """
        self._reach(kv_len)
        for own in (self._keys, self._values):
            own += [
                torch.zeros(self.batch, self.capacity, *shape, dtype=torch.float32) for _ in range(layers - len(own))
            ]
        if self._first() is not self._keys[0]:  # all layers are replaced together
            self._first = weakref.ref(self._keys[0])
            keys, values = ([layer.data_ptr() for layer in own] for own in (self._keys, self._values))
            self._addresses = np.array(keys, np.int64), np.array(values, np.int64)
        return self._addresses

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy keys and values within sequences: each (sequence, from slot, to slot), in order, towards the front.

        This moves an accepted path to the slots after the committed tokens. The other nodes need not be removed: every
        mask hides them, and the next rows overwrite them.
        """
        if not moves or not self._keys:
            return
        device = self._keys[0].device
        if device.type == "cpu" and self._keys[0].dtype == torch.float32:
            runs = _runs(moves, self.capacity)
            for layer in (*self._keys, *self._values):
                slots = layer.numpy().reshape(-1, *layer.shape[2:])  # three times faster than in torch
                for source, target, length in runs:
                    slots[target : target + length] = slots[source : source + length]
            return
        chosen = torch.tensor(moves, device=device)  # [moves, 3]
        sources, targets = (chosen[:, :1] * self.capacity + chosen[:, 1:]).unbind(1)
        for own in (self._keys, self._values):
            for layer in own:
                flat = layer.flatten(0, 1)
                flat.index_copy_(0, targets, flat.index_select(0, sources))

    @classmethod
    def copied(cls, sources: Sequence[Source | None], capacity: int) -> KeyValueCache:
        """Create a cache whose sequences begin with copies of their sources; at least one has a source."""
        known = next(source.cache for source in sources if source is not None)
        copy = cls(len(sources))
        copy.capacity = blocks(capacity)
        copy.kv_len = max(source.length for source in sources if source is not None)
        for number in range(len(known._keys)):
            for kind in ("_keys", "_values"):
                layer = getattr(known, kind)[number]
                new = layer.new_zeros(copy.batch, copy.capacity, *layer.shape[2:])
                for row, source in enumerate(sources):
                    if source is not None:
                        known_layer = getattr(source.cache, kind)[number]
                        new[row, : source.length] = known_layer[source.sequence, : source.length]
                getattr(copy, kind).append(new)
        return copy

    def join(self, other: KeyValueCache) -> None:
        """Append the sequences of another cache, which must not be used afterwards."""
        if not self.batch:
            self.batch, self.capacity, self.kv_len = other.batch, other.capacity, other.kv_len
            self._keys, self._values = other._keys, other._values
            return
        if self.allocated != other.allocated:
            empty, like = (other, self) if self.allocated else (self, other)
            new = like.new_empty(empty.batch, empty.capacity)
            empty._keys, empty._values = new._keys, new._values
        capacity = max(self.capacity, other.capacity)
        for cache in (self, other):
            if cache.capacity < capacity:
                cache._resize(capacity)
        for own, coming in ((self._keys, other._keys), (self._values, other._values)):
            for layer, more in enumerate(coming):
                own[layer] = torch.cat((own[layer], more))
                coming[layer] = own[layer][:0]  # frees its memory before the next layer is copied
        self.batch += other.batch
        self.kv_len = max(self.kv_len, other.kv_len)

    def keep(self, sequences: Sequence[int]) -> None:
        """Keep only these sequences of the batch, in this order."""
        for own in (self._keys, self._values):
            for layer, old in enumerate(own):
                own[layer] = old[torch.tensor(sequences, device=old.device)]
        self.batch = len(sequences)

    def put(self, sequence: int, other: KeyValueCache, length: int) -> None:
        """Overwrite the first slots of a sequence with those of a cache of one sequence."""
        for own, new in ((self._keys, other._keys), (self._values, other._values)):
            for layer, coming in zip(own, new, strict=True):
                layer[sequence, :length] = coming[0, :length]

    @classmethod
    def of(cls, keys: Sequence[Tensor], values: Sequence[Tensor], capacity: int) -> KeyValueCache:
        """Create a cache of given keys and values, with ``capacity`` slots.

        Args:
            keys: rotated to the positions of their slots # [layers][batch, slots, num_kv_heads, head_dim]
            values: like ``keys``.
            capacity: slots that will be in use.
        """
        new = cls(len(keys[0]))
        new.kv_len = keys[0].shape[1]
        new.capacity = blocks(max(capacity, new.kv_len))
        for given, own in ((keys, new._keys), (values, new._values)):
            for layer in given:
                own.append(layer.new_zeros(new.batch, new.capacity, *layer.shape[2:]))
                own[-1][:, : new.kv_len] = layer
        return new

    def layer(self, number: int, slots: int) -> tuple[Tensor, Tensor]:
        """Return views of the first ``slots`` keys and values of one layer # [batch, slots, num_kv_heads, head_dim]."""
        return self._keys[number][:, :slots], self._values[number][:, :slots]

    @property
    def allocated(self) -> bool:
        """Whether it has been written to."""
        return bool(self._keys)

    def new_empty(self, batch: int, capacity: int) -> KeyValueCache:
        """Create an empty cache with this many sequences and slots, and with layers of the same shapes."""
        new = KeyValueCache(batch)
        new.capacity = capacity
        for own, empty in ((self._keys, new._keys), (self._values, new._values)):
            empty += [layer.new_zeros(batch, capacity, *layer.shape[2:]) for layer in own]
        return new

    def settle(self, other: KeyValueCache, kv_len: int) -> None:
        """Move the first ``kv_len`` slots into the storage of another cache, which both share from now on.

        The other cache can have more sequences; its first ones become those of this cache.
        """
        for own, theirs in ((self._keys, other._keys), (self._values, other._values)):
            for layer, (old, new) in enumerate(zip(own, theirs, strict=True)):
                shared = new if other.batch == self.batch else new[: self.batch]
                shared[:, :kv_len] = old[:, :kv_len]
                own[layer] = shared
        self.capacity = other.capacity

    def equals(self, other: KeyValueCache, kv_len: int) -> bool:
        """Return whether both have exactly the same contents in their first ``kv_len`` slots."""
        pairs = zip((*self._keys, *self._values), (*other._keys, *other._values), strict=True)
        return all(torch.equal(own[:, :kv_len], its[:, :kv_len]) for own, its in pairs)

    def shares(self, other: KeyValueCache) -> bool:
        """Return whether both write to the same storage."""
        if not (self.allocated and other.allocated):
            return False
        own, its = self._keys[0], other._keys[0]
        return own is its or own.untyped_storage().data_ptr() == its.untyped_storage().data_ptr()

    def _reach(self, kv_len: int) -> None:
        if kv_len > self.capacity:
            # It grows by half, so that all copies together cost about as much as the writes.
            self._resize(blocks(max(kv_len, self.capacity * 3 // 2)))
        self.kv_len = kv_len

    def _resize(self, capacity: int) -> None:
        for own in (self._keys, self._values):
            for layer, old in enumerate(own):
                new = old.new_zeros(self.batch, capacity, *old.shape[2:])
                new[:, : self.capacity] = old
                own[layer] = new
        self.capacity = capacity


def blocks(slots: int) -> int:
    """Round a number of slots up to the allocated size."""
    return -(-slots // _BLOCK) * _BLOCK


def _runs(moves: Sequence[tuple[int, int, int]], capacity: int) -> list[tuple[int, int, int]]:
    """Merge moves of neighbouring slots into (from, to, count), with batch and slots as one axis."""
    runs: list[tuple[int, int, int]] = []
    for sequence, start, end in moves:
        source, target = sequence * capacity + start, sequence * capacity + end
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (source, target):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((source, target, 1))
    return runs
