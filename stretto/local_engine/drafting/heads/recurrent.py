"""Heads that draft token by token: each row reads a token and the head's output for the previous row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from stretto.local_engine.drafting.heads.decoder import Part
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import ancestry
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.segments import Segment

Nodes = tuple[Sequence[int], Sequence[int]]
"""Tokens of draft nodes, and the parents of these nodes; see `Reader.after`."""

READ_AT_ONCE = 512
"""Maximum number of committed rows that wait to be read, so that their mask does not get too large."""


class Recurrent(Protocol):
    """Layers of such a head."""

    def enter(self, states: Tensor) -> Tensor:
        """Convert the model's hidden states to the head's input # [rows, layers * hidden] -> [rows, own]."""
        ...

    def run(self, tokens: Tensor, before: Tensor, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
        """Run the head over rows of one or more sequences, sequence after sequence.

        Args:
            tokens: tokens that follow the previous rows # [1, rows]
            before: output of the previous rows # [1, rows, own]
            parts: rows of each sequence, with their positions and what they see, and its cache.

        Returns:
            the input of the next rows, and the input of `logits` # [1, rows, own], twice
        """
        ...

    def logits(self, final: Tensor) -> Tensor:
        """Return logits over the head's vocabulary # [rows, own] -> [rows, words]."""
        ...


class RecurrentReader:
    """Reader of one sequence for such a head, with its key-value cache.

    Its first row is that of the first token whose hidden states it was given. Rotary embeddings are relative, so rows
    are counted from there. Rows of a draft follow the committed ones, and the next committed rows overwrite them.
    """

    sure: Sequence[float] | None = None
    begins = 0

    def __init__(self, head: Recurrent, device: torch.device) -> None:
        self.head, self._device = head, device
        self.cache = KeyValueCache(1)
        self._committed = 0  # committed rows in the cache
        self._unread: list[tuple[Sequence[int], Tensor]] = []
        self._last: tuple[Tensor, Tensor] | None = None  # output of the last committed row # [own], [1, words]
        self._tokens: list[int] = []  # of the draft's nodes
        self._parents: list[int] = []
        self._given: list[Tensor] = []  # output of each node # [own]
        self.new = 0  # number of last rows of the prepared run whose logits are wanted
        self.new_logits: Tensor | None = None  # their logits # [new, words]

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """See `Reader`. The work is delayed until the next draft begins, or many rows have accumulated."""
        self._unread.append((list(tokens), states))
        if sum(len(some) for some, _ in self._unread) >= READ_AT_ONCE:
            self._catch_up()

    def first(self) -> Tensor:
        return answered([self], [None])[0]

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        return answered([self], [(tokens, parents)])[0]

    def prepare(self, nodes: Nodes | None) -> tuple[Tensor, Rows] | None:
        """Return the input of a run that begins a draft, or follows nodes; ``None`` if nothing is left to read.

        A chain continues incrementally. Nodes of a tree must not see each other's branches, so all of them run again:
        they are few, and a head is small.
        """
        if nodes is None:
            self._tokens, self._parents, self._given = [], [], []
            if self._unread:
                return self._unread_rows()
            assert self._last is not None  # noqa: S101 - for the type checker: the prompt was read
            self.new_logits = self._last[1]
            return None
        assert self._last is not None  # noqa: S101 - as above
        tokens, parents = nodes
        self._tokens += tokens
        self._parents += parents
        self.new, count, last = len(tokens), len(self._tokens), self._last[0]
        is_chain = self._parents == list(range(-1, count - 1))
        chosen = self._parents[-self.new :] if is_chain else self._parents
        before = torch.stack([self._given[parent] if parent >= 0 else last for parent in chosen])
        return before, self._chain_rows(count, self.new) if is_chain else self._tree_rows()

    def take(self, given: Tensor, logits: Tensor) -> None:
        """Store the output of a run for its new rows # [new, own], [new, words]."""
        self.new_logits = logits
        if self._tokens:
            self._given += list(given)
        else:
            self._last = given[-1], logits

    def _unread_rows(self) -> tuple[Tensor, Rows]:
        tokens = [token for some, _ in self._unread for token in some]
        before = self.head.enter(torch.cat([own for _, own in self._unread]))
        self._unread, first, self.new = [], self._committed, 1
        self._committed += len(tokens)
        return before, Rows.following(tokens, first, self._device)

    def _catch_up(self) -> None:
        """Read the accumulated rows, in parts whose masks do not get too large."""
        tokens = [token for some, _ in self._unread for token in some]
        states = torch.cat([own for _, own in self._unread])
        for start in range(0, len(tokens), READ_AT_ONCE):
            stop = start + READ_AT_ONCE
            self._unread = [(tokens[start:stop], states[start:stop])]
            answered([self], [None])

    def _chain_rows(self, count: int, new: int) -> Rows:
        rows, one = Rows.following(self._tokens[-new:], self._committed + count - new, self._device), slice(0, 1)
        if new > 1:
            return rows
        return replace(rows, segments=(Segment(one, one, one, rows.kv_len),))  # it sees everything, and needs no mask

    def _tree_rows(self) -> Rows:
        count, lines, depths = len(self._tokens), list[int](), list[int]()
        for node, parent in enumerate(self._parents):
            lines.append((lines[parent] if parent >= 0 else 0) | 1 << node)
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        slots = torch.arange(self._committed, self._committed + count, device=self._device)[None]
        return Rows(
            torch.tensor([self._tokens], device=self._device),
            torch.tensor([depths], device=self._device) + self._committed,
            self._committed + count,
            slots=slots,
            ancestry=torch.from_numpy(ancestry(lines).copy()).to(self._device)[None],
        )


def answered(readers: Sequence[RecurrentReader], requests: Sequence[Nodes | None]) -> list[Tensor]:
    """Run a head for its readers; return the logits of `RecurrentReader.first`, or of `after` if there are nodes."""
    running, before, parts, wanted, start = list[RecurrentReader](), list[Tensor](), list[Part](), list[int](), 0
    for reader, nodes in zip(readers, requests, strict=True):
        prepared = reader.prepare(nodes)
        if prepared is not None:
            running.append(reader)
            before.append(prepared[0])
            parts.append((prepared[1], reader.cache))
            start += prepared[1].tokens.shape[1]
            wanted += range(start - reader.new, start)
    if running:
        head = running[0].head
        tokens = torch.cat([rows.tokens for rows, _ in parts], 1)
        given, final = head.run(tokens, torch.cat(before)[None], parts)
        logits, sizes = head.logits(final[0, wanted]), [reader.new for reader in running]
        pieces = torch.split(given[0, wanted], sizes), torch.split(logits, sizes)
        for reader, own, own_logits in zip(running, *pieces, strict=True):
            reader.take(own, own_logits)
    return [reader.new_logits for reader in readers if reader.new_logits is not None]
