"""Keys and values of finished requests, for later prompts that begin with the same tokens, such as turns of a chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source, blocks
from stretto.local_engine.model.forward.rotary import is_beyond

_WORTH_COPYING = 8
_STALE = 4  # multiples of the limit that were read since a sequence was last useful

_Tokens = NDArray[np.int64]


@dataclass(eq=False, slots=True)
class _Kept:
    tokens: _Tokens
    cache: KeyValueCache  # of one sequence; only copied from
    known_by: Hashable
    tenant: Hashable
    used_at: int  # total bytes of all requests when it was last useful

    @property
    def bytes(self) -> int:
        return self.cache.slots * self.cache.bytes_per_slot


class PrefixCache:
    """A cache of limited size, for a single thread.

    The tenant that uses most makes room with its least recently used sequence: nobody evicts a tenant that uses less.
    Sequences that have long been of no use are dropped first, whoever owns them.

    A prompt can share only the first tokens of a stored sequence; it starts from these. Every layer keeps all its
    slots, even with a sliding window, because the mask hides the slots before the window. So a prompt can start
    anywhere.

    After Zheng et al., arXiv:2312.07104 (RadixAttention), with whole sequences in place of a tree.

    Args:
        limit_bytes: of keys and values; 0 keeps nothing.
        limit_tokens: of all sequences kept.
        switch: of the forward; keys and values of shorter texts cannot be used for longer ones, or vice versa.
    """

    def __init__(self, limit_bytes: int, limit_tokens: int = 2**62, switch: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._limit_tokens = limit_tokens
        self._switch = switch
        self._kept: list[_Kept] = []  # the least recently used one first
        self._brought = 0  # bytes, by all requests so far
        self.bytes = 0
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(
        self,
        tokens: Sequence[int],
        cache: KeyValueCache,
        sequence: int,
        known_by: Hashable = None,
        tenant: Hashable = None,
    ) -> None:
        """Store a copy of the first slots of a sequence, with the keys and values of ``tokens``.

        ``known_by``: who else can use them; see `Generation.known_by`. ``tenant``: who makes room for them.
        """
        size = blocks(len(tokens)) * cache.bytes_per_slot  # the allocated size
        if not _WORTH_COPYING <= len(tokens) <= self._limit_tokens or not 0 < size <= self._limit_bytes:
            return
        ids = np.array(tokens, dtype=np.int64)
        earlier: list[_Kept] = []  # turns of the same chat
        for kept in [each for each in self._kept if each.known_by == known_by]:
            same = common_length(kept.tokens, ids)
            if same == len(ids) and self._alike(kept, len(ids)):  # stored already
                self._touch(kept)
                return
            if same == len(kept.tokens):
                earlier.append(kept)
        self._brought += size
        out = self._makes_room([kept for kept in self._kept if kept not in earlier], size, len(ids), tenant)
        if out is None:
            return
        for kept in (*earlier, *out):
            self._drop(kept)
        copy = KeyValueCache.copied([Source(cache, sequence, len(ids))], len(ids))
        self._kept.append(_Kept(ids, copy, known_by, tenant, self._brought))
        self.bytes += size
        self.tokens += len(ids)

    def find(self, prompt: _Tokens, known_by: Hashable = None) -> Source | None:
        """Find the stored sequence that shares most of a prompt's first tokens; the last token is always read."""
        lengths = [
            common_length(kept.tokens, prompt[:-1])
            if kept.known_by == known_by and self._alike(kept, len(prompt))
            else 0
            for kept in self._kept
        ]
        most = max(lengths, default=0)
        if most < _WORTH_COPYING:
            return None
        kept = self._kept[lengths.index(most)]
        self._touch(kept)
        return Source(kept.cache, 0, most)

    def _makes_room(self, left: list[_Kept], size: int, tokens: int, tenant: Hashable) -> list[_Kept] | None:
        """Return the sequences in ``left`` to drop for a new one.

        ``None`` if its tenant alone would use most, and has nothing to drop.
        """
        out: list[_Kept] = []
        bytes_by_tenant = Counter[Hashable]({tenant: size})
        for kept in left:
            bytes_by_tenant[kept.tenant] += kept.bytes
            tokens += len(kept.tokens)
        while left and (sum(bytes_by_tenant.values()) > self._limit_bytes or tokens > self._limit_tokens):
            most = max(bytes_by_tenant.values())
            stale = self._brought - left[0].used_at > _STALE * self._limit_bytes
            chosen = next((kept for kept in left if stale or bytes_by_tenant[kept.tenant] == most), None)
            if chosen is None:
                return None
            left.remove(chosen)
            bytes_by_tenant[chosen.tenant] -= chosen.bytes
            tokens -= len(chosen.tokens)
            out.append(chosen)
        return out

    def clear(self) -> None:
        self._kept, self.bytes, self.tokens = [], 0, 0

    def _alike(self, kept: _Kept, length: int) -> bool:
        return is_beyond(len(kept.tokens), self._switch) == is_beyond(length, self._switch)

    def _touch(self, kept: _Kept) -> None:
        kept.used_at = self._brought
        self._kept.remove(kept)
        self._kept.append(kept)

    def _drop(self, kept: _Kept) -> None:
        self._kept.remove(kept)
        self.bytes -= kept.bytes
        self.tokens -= len(kept.tokens)


def best_source(
    prompt: _Tokens, cache: KeyValueCache, texts: Sequence[Sequence[int]], switch: int | None = None
) -> Source | None:
    """Find the sequence of a running batch that shares most of a prompt's first tokens.

    Args:
        prompt: its last token is always read.
        cache: of the batch.
        texts: tokens of each sequence of the batch.
        switch: of the forward; texts on its other side are skipped.
    """
    beginning, first = prompt[:-1], prompt[:_WORTH_COPYING].tolist()  # the last token is always read
    lengths = [
        # The last token of a running text is not in the cache yet.
        common_length(beginning, np.array(text[: min(len(text) - 1, len(beginning))], dtype=np.int64))
        if text[:_WORTH_COPYING] == first and is_beyond(len(text) - 1, switch) == is_beyond(len(prompt), switch)
        else 0
        for text in texts
    ]
    most = max(lengths, default=0)
    return Source(cache, lengths.index(most), most) if most >= _WORTH_COPYING else None


def common_length(first: _Tokens, second: _Tokens) -> int:
    """Return how many of their first tokens are the same."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length
