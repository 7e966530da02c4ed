"""The input of one forward: its rows, and the mask that defines which slots of the cache a row sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stretto.local_engine.model.forward.segments import Segment

LAST = -1
"""The normalised state after the last layer: the input of the last product."""


def keys_and_values(layer: int) -> int:
    """Return the number that requests a layer's keys and values of the rows, side by side.

    Only the forward of transformers' own code provides them.
    """
    return -2 - layer


class LayerStates:
    """Requests the states of layers from a forward, and receives them for all rows.

    Args:
        layers: numbers of layers passed: 0 is the input vector, k the residual stream after k layers; or `LAST`, or a
            number from `keys_and_values`.

    Attributes:
        found: by these numbers, once the forward has run; those of padding have no meaning # [batch, rows, hidden]
    """

    __slots__ = ("found", "layers")

    def __init__(self, layers: Iterable[int]) -> None:
        self.layers = frozenset(layers)
        self.found: dict[int, Tensor] = {}

    def of(self, sequence: int, rows: slice, layers: Sequence[int]) -> Tensor:
        """Return the states of some rows of a sequence, layers side by side # [rows, layers * hidden]."""
        return torch.cat([self.found[layer][sequence, rows] for layer in layers], -1)


@dataclass(frozen=True, slots=True)
class Rows:
    """The input of one forward: a row for each token, with its position and the slot for its keys and values.

    Consecutive rows are written to the slots of their positions. The nodes of a draft tree are written to consecutive
    slots after the committed tokens, whatever their positions, until the accepted path is moved to the slots of its
    positions.

    Attributes:
        tokens: token ids # [batch, rows]
        positions: in their own sequence, from 0 # [batch, rows]
        kv_len: slots in use once these rows are written; a row sees none beyond.
        slots: of the rows of a tree; without a tree they are the positions # [batch, rows]
        ancestry: which rows of a tree each row descends from, itself included # [batch, rows, rows]
        sees: the number of slots that each row sees, if these are not just those up to its own; not for a tree. Rows of
            a block that see each other are in any order # [batch, rows]
        blank: which rows have no token, if any: they have a negative one, which a `RowAdapter` reads # [batch, rows]
        real: if sequences have different numbers of rows, those that are not padding, as indices into batch and rows as
            one axis; a forward may leave the others out # [real]
        segments: rows that share a call of attention, so that few slots are masked; each real row is in one of them.
        wanted: how many of its last rows each sequence wants logits for, if not for all that are kept; a forward may
            leave the others out.
        lengths: tokens of each prompt that these rows are part of; ``None`` for a step, and if the model does not need
            them.
        states: receives the hidden states of the layers that it requests; ``None`` if none are wanted.
        adapters: names of the sequences' unmerged adapters; ``None`` if none has one.
    """

    tokens: Tensor
    positions: Tensor
    kv_len: int
    slots: Tensor | None = None
    ancestry: Tensor | None = None
    sees: Tensor | None = None
    blank: Tensor | None = None
    real: Tensor | None = None
    segments: tuple[Segment, ...] | None = None
    wanted: tuple[int, ...] | None = None
    lengths: tuple[int, ...] | None = None
    states: LayerStates | None = None
    adapters: tuple[str | None, ...] | None = None

    @classmethod
    def following(cls, tokens: Sequence[int], start: int, device: torch.device) -> Rows:
        """Create consecutive rows of one sequence, the first of them at position ``start``."""
        stop = start + len(tokens)
        return cls(torch.tensor([[*tokens]], device=device), torch.arange(start, stop, device=device)[None], stop)

    def of(self, sequence: int) -> tuple[Rows, Tensor]:
        """Return the rows of one sequence, without its padding.

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
            sees=None if self.sees is None else self.sees[sequence, chosen][None],
            states=None if self.states is None else LayerStates(self.states.layers),
            adapters=None if self.adapters is None else (self.adapters[sequence],),
        )
        return own, chosen

    def mask(self, dtype: torch.dtype, window: int | None = None) -> Tensor:
        """Create the mask that is added to the attention scores: 0 for what a row sees, else minus infinity.

        A slot contains the token of the same position, so a row sees the slots up to its own position, or the number of
        slots in ``sees``; with a sliding ``window``, none that lie ``window`` or more before it. A node of a tree sees
        the committed tokens and its ancestors (Miao et al., arXiv:2305.09781). The mask contains floats, because eager
        attention in transformers silently misreads a boolean mask.

        Returns:
            # [batch, 1, rows, kv_len]
        """
        if self.slots is not None and self.ancestry is not None:
            return self._tree_mask(dtype, window, self.slots, self.ancestry)
        slots = torch.arange(self.kv_len, device=self.positions.device)
        own = self.positions[:, None, :, None]
        hidden = slots > own if self.sees is None else slots >= self.sees[:, None, :, None]
        if window is not None:
            hidden |= slots <= own - window
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)

    def _tree_mask(self, dtype: torch.dtype, window: int | None, own: Tensor, ancestry: Tensor) -> Tensor:
        (batch, rows), device = own.shape, own.device
        slots = torch.arange(self.kv_len, device=device)
        hidden = (slots >= own[:, :1]).view(batch, 1, 1, -1)  # the slots of the tree, and those after it
        unrelated = ~ancestry
        if window is not None:
            hidden = hidden | (slots <= self.positions[:, None, :, None] - window)
            unrelated |= self.positions[:, None, :] <= self.positions[:, :, None] - window
        mask = torch.zeros(batch, 1, rows, self.kv_len, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
        tree = torch.zeros(batch, 1, rows, rows, dtype=dtype, device=device)
        tree.masked_fill_(unrelated[:, None], -torch.inf)
        return mask.scatter_(3, own[:, None, None, :].expand(tree.shape), tree)
