"""Heads that draft token by token: each row reads a token and what the head made of the row before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.flatten import ancestry
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.segments import Segment

__all__ = ["Recurrent", "RecurrentReader"]

_READ_AT_ONCE = 512


class Recurrent(Protocol):
    """The layers of such a head."""

    def enter(self, states: Tensor) -> Tensor:
        """Turn the model's hidden states into what a row of the head reads # [rows, layers * hidden] -> [rows, own]."""
        ...

    def run(self, tokens: Tensor, before: Tensor, rows: Rows, cache: KeyValueCache) -> tuple[Tensor, Tensor]:
        """Run the head.

        Args:
            tokens: that follow the rows before # [1, rows]
            before: what these rows gave # [1, rows, own]
            rows: where they stand and what they see.
            cache: the head's own.

        Returns:
            what the rows that follow read, and what `logits` takes # [1, rows, own], twice
        """
        ...

    def logits(self, final: Tensor) -> Tensor:
        """Logits over the head's vocabulary # [rows, own] -> [rows, words]."""
        ...


class RecurrentReader:
    """Keeps the key-value cache of such a head for one sequence.

    Its first row is that of the first token whose hidden states it was given. A rotation is relative, so the rows are
    counted from there. Rows of a draft lie behind the committed ones, and the next committed rows overwrite them.
    """

    sure: Sequence[float] | None = None

    def __init__(self, head: Recurrent, device: torch.device) -> None:
        self._head, self._device = head, device
        self._cache = KeyValueCache(1)
        self._held = 0  # committed rows in the cache
        self._unread: list[tuple[Sequence[int], Tensor]] = []
        self._last: tuple[Tensor, Tensor] | None = None  # what the last committed row gave # [own], [1, words]
        self._tokens: list[int] = []  # of the draft's nodes
        self._parents: list[int] = []
        self._given: list[Tensor] = []  # by each node # [own]

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """See `Reader`. It is done when the next draft begins, or when much has come together."""
        self._unread.append((list(tokens), states))
        if sum(len(some) for some, _ in self._unread) >= _READ_AT_ONCE:
            self._catch_up()

    def first(self) -> Tensor:
        """See `Reader`."""
        self._tokens, self._parents, self._given = [], [], []
        if self._unread:
            self._catch_up()
        assert self._last is not None  # noqa: S101 - for the type checker: the prompt was read
        return self._last[1]

    def behind(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        """See `Reader`.

        A chain goes on where it is. Nodes of a tree must not see each other's branches, so all of them run again: they
        are few, and a head is small.
        """
        assert self._last is not None  # noqa: S101 - as above
        self._tokens += tokens
        self._parents += parents
        count = len(self._tokens)
        is_chain = self._parents == list(range(-1, count - 1))
        chosen = range(count - len(tokens), count) if is_chain else range(count)
        before = torch.stack(
            [
                self._given[parent] if parent >= 0 else self._last[0]
                for parent in (self._parents[node] for node in chosen)
            ]
        )[None]
        rows = self._chain_rows(count, len(tokens)) if is_chain else self._tree_rows()
        given, final = self._head.run(rows.tokens, before, rows, self._cache)
        self._given += list(given[0, -len(tokens) :])
        return self._head.logits(final[0, -len(tokens) :])

    def _catch_up(self) -> None:
        tokens = torch.tensor([token for some, _ in self._unread for token in some], device=self._device)
        states = torch.cat([own for _, own in self._unread])
        self._unread = []
        for start in range(0, len(tokens), _READ_AT_ONCE):
            stop = min(start + _READ_AT_ONCE, len(tokens))
            first = self._held
            self._held += stop - start
            positions = torch.arange(first, self._held, device=self._device)[None]
            rows = Rows(tokens[None, start:stop], positions, self._held)
            given, final = self._head.run(rows.tokens, self._head.enter(states[start:stop])[None], rows, self._cache)
        self._last = given[0, -1], self._head.logits(final[0, -1:])

    def _chain_rows(self, count: int, new: int) -> Rows:
        kv_len = self._held + count
        positions = torch.arange(kv_len - new, kv_len, device=self._device)[None]
        one = slice(0, 1)
        single = (Segment(one, one, one, kv_len),) if new == 1 else None  # it sees everything, and needs no mask
        return Rows(torch.tensor([self._tokens[-new:]], device=self._device), positions, kv_len, segments=single)

    def _tree_rows(self) -> Rows:
        count, lines, depths = len(self._tokens), list[int](), list[int]()
        for node, parent in enumerate(self._parents):
            lines.append((lines[parent] if parent >= 0 else 0) | 1 << node)
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        slots = torch.arange(self._held, self._held + count, device=self._device)[None]
        return Rows(
            torch.tensor([self._tokens], device=self._device),
            torch.tensor([depths], device=self._device) + self._held,
            self._held + count,
            slots=slots,
            ancestry=torch.from_numpy(ancestry(lines).copy()).to(self._device)[None],
        )
