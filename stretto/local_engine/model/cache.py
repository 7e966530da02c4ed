"""The key-value cache: rows write to its slots by index, and a mask says which slots a row sees."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.model.segments import Segment

__all__ = ["KeyValueCache", "Rows", "Source", "blocks"]

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Rows:
    """The input of one forward: a row for each token, with its position and the slot for its keys and values.

    Rows that follow each other are written to the slots of their positions. The nodes of a draft tree are written to
    consecutive slots behind the committed tokens, whatever their positions, until the accepted path is moved to the
    slots of its positions.

    Attributes:
        tokens: token ids # [batch, rows]
        positions: in their own sequence, from 0 # [batch, rows]
        kv_len: slots in use once these rows are written; a row sees none beyond.
        slots: of the rows of a tree; without a tree they are the positions # [batch, rows]
        ancestry: which rows of a tree each row descends from, itself included # [batch, rows, rows]
        pads: which rows are [PAD]s, if there are any; see `stretto.local_engine.model.pads` # [batch, rows]
        real: where sequences have different numbers of rows, those that are no padding, as indices into batch and rows
            as one axis; a forward may leave the others out # [real]
        segments: rows that share a call of attention, so that few slots are masked; each real row is in one of them.
        lengths: tokens of each prompt that these rows are a part of; ``None`` for a step, and where no model asks.
    """

    tokens: Tensor
    positions: Tensor
    kv_len: int
    slots: Tensor | None = None
    ancestry: Tensor | None = None
    pads: Tensor | None = None
    real: Tensor | None = None
    segments: tuple[Segment, ...] | None = None
    lengths: tuple[int, ...] | None = None

    def of(self, sequence: int) -> tuple[Rows, Tensor]:
        """Take the rows of one sequence, without its padding.

        Returns:
            the rows, and which of the sequence's rows they are # [own]
        """
        count, device = self.tokens.shape[1], self.tokens.device
        if self.ancestry is not None:
            chosen = self.ancestry[sequence, :, 0].nonzero()[:, 0]  # all but padding descend from row 0
        elif self.real is not None:
            first = sequence * count
            chosen = self.real[(self.real >= first) & (self.real < first + count)] - first
        else:
            chosen = torch.arange(count, device=device)
        slots = self.positions if self.slots is None else self.slots
        own = Rows(
            self.tokens[sequence, chosen][None],
            self.positions[sequence, chosen][None],
            int(slots[sequence, chosen].max()) + 1 if len(chosen) else 0,
            slots=None if self.slots is None else slots[sequence, chosen][None],
            ancestry=None if self.ancestry is None else self.ancestry[sequence][chosen][:, chosen][None],
        )
        return own, chosen

    def mask(self, dtype: torch.dtype, window: int | None = None) -> Tensor:
        """Make the mask that is added to the attention scores: 0 for what a row sees, else minus infinity.

        A slot holds the token of the same position, so a row sees the slots up to its own position; with a
        sliding ``window``, only the last so many of them. A node of a tree sees the committed tokens and its
        ancestors (Miao et al., arXiv:2305.09781). The mask holds floats, because eager attention in transformers
        silently misreads a boolean mask.

        Returns:
            # [batch, 1, rows, kv_len]
        """
        if self.slots is not None and self.ancestry is not None:
            return self._tree_mask(dtype, window, self.slots, self.ancestry)
        slots = torch.arange(self.kv_len, device=self.positions.device)
        own = self.positions[:, None, :, None]
        hidden = slots > own
        if window is not None:
            hidden |= slots <= own - window
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)

    def anchored(self, states: Tensor) -> Tensor:
        """For each row the state of its anchor: the nearest ancestor, itself included, that is not a [PAD].

        Args:
            states: of all rows # [batch, rows, hidden]
        """
        if self.ancestry is None or self.pads is None:
            return states
        numbers = torch.arange(1, states.shape[1] + 1, device=states.device)
        nearest = (self.ancestry & ~self.pads[:, None]) * numbers  # [batch, rows, rows]
        return states.take_along_dim(nearest.argmax(-1)[..., None], 1)

    def _tree_mask(self, dtype: torch.dtype, window: int | None, own: Tensor, ancestry: Tensor) -> Tensor:
        (batch, rows), device = own.shape, own.device
        slots = torch.arange(self.kv_len, device=device)
        hidden = (slots >= own[:, :1]).view(batch, 1, 1, -1)  # the slots of the tree, and those behind it
        unrelated = ~ancestry
        if window is not None:
            hidden = hidden | (slots <= self.positions[:, None, :, None] - window)
            unrelated |= self.positions[:, None, :] <= self.positions[:, :, None] - window
        mask = torch.zeros(batch, 1, rows, self.kv_len, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
        tree = torch.zeros(batch, 1, rows, rows, dtype=dtype, device=device)
        tree.masked_fill_(unrelated[:, None], -torch.inf)
        return mask.scatter_(3, own[:, None, None, :].expand(tree.shape), tree)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the keys and values of a prompt's first tokens can be copied from."""

    cache: KeyValueCache
    sequence: int
    length: int


class KeyValueCache:
    """Keys and values of a batch of sequences, one slot per position.

    Every sequence starts at slot 0 whatever its length. Nothing is padded on the left, and nothing has to be deleted:
    slots behind the end of a sequence hold old values that every mask hides. Layers are allocated when they are first
    written, so their shapes may differ from layer to layer.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.capacity = 0
        self.kv_len = 0
        self._keys: list[Tensor] = []  # per layer # [batch, slots, num_kv_heads, head_dim]
        self._values: list[Tensor] = []
        self._targets = torch.empty(0, dtype=torch.long)  # [batch * rows], into batch and slots as one axis
        self._written = slice(None)  # sequences that the current rows belong to
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

    def begin(self, rows: Rows, *, packed: bool = False) -> None:
        """Allocate the slots of ``rows``; the writes of the coming forward go there.

        ``packed``: the forward will write the real rows only, concatenated.
        """
        self._reach(rows.kv_len)
        self._written = slice(None)
        slots = rows.positions if rows.slots is None else rows.slots
        if self.batch > 1:
            slots = slots + (torch.arange(self.batch, device=slots.device) * self.capacity)[:, None]
        self._targets = slots.reshape(-1)
        if rows.real is not None and packed:
            self._targets = self._targets[rows.real]

    def begin_alone(self, rows: Rows, sequence: int) -> None:
        """Do what `begin` does for the rows of one sequence; the writes that follow return that sequence only."""
        self._reach(rows.kv_len)
        self._written = slice(sequence, sequence + 1)
        slots = rows.positions if rows.slots is None else rows.slots
        self._targets = slots.reshape(-1) + sequence * self.capacity

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
            kv_len: slots in use once it has written.
            layers: number of layers of the model.
            shape: num_kv_heads and head_dim.

        Returns:
            addresses of the keys and of the values # [layers]
        """
        self._reach(kv_len)
        for held in (self._keys, self._values):
            held += [
                torch.zeros(self.batch, self.capacity, *shape, dtype=torch.float32) for _ in range(layers - len(held))
            ]
        if self._first() is not self._keys[0]:  # all layers are replaced together
            self._first = weakref.ref(self._keys[0])
            keys, values = ([layer.data_ptr() for layer in held] for held in (self._keys, self._values))
            self._addresses = np.array(keys, np.int64), np.array(values, np.int64)
        return self._addresses

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Copy keys and values within sequences: each (sequence, from slot, to slot), in order, towards the front.

        An accepted path is moved behind the committed tokens this way. The other nodes need not be removed: every mask
        hides them, and the next rows overwrite them.
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
        for held in (self._keys, self._values):
            for layer in held:
                flat = layer.flatten(0, 1)
                flat.index_copy_(0, targets, flat.index_select(0, sources))

    @classmethod
    def copied(cls, sources: Sequence[Source | None], capacity: int) -> KeyValueCache:
        """Make a cache whose sequences begin with copies of their sources; at least one has a source."""
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
                        held = getattr(source.cache, kind)[number]
                        new[row, : source.length] = held[source.sequence, : source.length]
                getattr(copy, kind).append(new)
        return copy

    def join(self, other: KeyValueCache) -> None:
        """Append the sequences of another cache, which must not be used any more."""
        if not self.batch:
            self.batch, self.capacity, self.kv_len = other.batch, other.capacity, other.kv_len
            self._keys, self._values = other._keys, other._values
            return
        capacity = max(self.capacity, other.capacity)
        for cache in (self, other):
            if cache.capacity < capacity:
                cache._resize(capacity)
        for held, coming in ((self._keys, other._keys), (self._values, other._values)):
            for layer, more in enumerate(coming):
                held[layer] = torch.cat((held[layer], more))
                coming[layer] = held[layer][:0]  # frees its memory before the next layer is copied
        self.batch += other.batch
        self.kv_len = max(self.kv_len, other.kv_len)

    def keep(self, sequences: Sequence[int]) -> None:
        """Keep only these sequences of the batch, in this order."""
        for held in (self._keys, self._values):
            for layer, old in enumerate(held):
                held[layer] = old[torch.tensor(sequences, device=old.device)]
        self.batch = len(sequences)

    def put(self, sequence: int, other: KeyValueCache, length: int) -> None:
        """Overwrite the first slots of a sequence with those of a cache of one sequence."""
        for held, new in ((self._keys, other._keys), (self._values, other._values)):
            for layer, coming in zip(held, new, strict=True):
                layer[sequence, :length] = coming[0, :length]

    @classmethod
    def of(cls, keys: Sequence[Tensor], values: Sequence[Tensor], capacity: int) -> KeyValueCache:
        """Make a cache of given keys and values, with ``capacity`` slots.

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
        """Views of the first ``slots`` keys and values of one layer # [batch, slots, num_kv_heads, head_dim]."""
        return self._keys[number][:, :slots], self._values[number][:, :slots]

    @property
    def allocated(self) -> bool:
        """Whether it has been written to."""
        return bool(self._keys)

    def like(self, batch: int, capacity: int) -> KeyValueCache:
        """Make an empty cache of so many sequences and slots, with layers of these shapes."""
        new = KeyValueCache(batch)
        new.capacity = capacity
        for held, own in ((self._keys, new._keys), (self._values, new._values)):
            own += [layer.new_zeros(batch, capacity, *layer.shape[2:]) for layer in held]
        return new

    def settle(self, other: KeyValueCache, kv_len: int) -> None:
        """Move the first ``kv_len`` slots into the storage of another cache, which both share from now on.

        The other one may have more sequences; the first ones become those of this cache.
        """
        for held, new in ((self._keys, other._keys), (self._values, other._values)):
            for layer, (old, place) in enumerate(zip(held, new, strict=True)):
                own = place if other.batch == self.batch else place[: self.batch]
                own[:, :kv_len] = old[:, :kv_len]
                held[layer] = own
        self.capacity = other.capacity

    def equals(self, other: KeyValueCache, kv_len: int) -> bool:
        """Whether both hold exactly the same in their first ``kv_len`` slots."""
        pairs = zip((*self._keys, *self._values), (*other._keys, *other._values), strict=True)
        return all(torch.equal(own[:, :kv_len], its[:, :kv_len]) for own, its in pairs)

    def shares(self, other: KeyValueCache) -> bool:
        """Whether both write to the same storage."""
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
        for held in (self._keys, self._values):
            for layer, old in enumerate(held):
                new = old.new_zeros(self.batch, capacity, *old.shape[2:])
                new[:, : self.capacity] = old
                held[layer] = new
        self.capacity = capacity


def blocks(slots: int) -> int:
    """Round a number of slots up to what is allocated."""
    return -(-slots // _BLOCK) * _BLOCK


def _runs(moves: Sequence[tuple[int, int, int]], capacity: int) -> list[tuple[int, int, int]]:
    """Merge moves of neighbouring slots: from, to, both in batch and slots as one axis, and how many."""
    runs: list[tuple[int, int, int]] = []
    for sequence, start, end in moves:
        source, target = sequence * capacity + start, sequence * capacity + end
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (source, target):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((source, target, 1))
    return runs
