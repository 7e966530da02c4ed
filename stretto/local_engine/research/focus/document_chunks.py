"""Chunks of a document: cut, read in groups, and cached within a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache, blocks
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows

_SPARE = 32  # slots after a chunk and its local tokens, so that an answer seldom reallocates the cache


def cut(document: Sequence[int], longest: int, overlap: int = 0) -> list[tuple[int, ...]]:
    """Cut a document into chunks of at most ``longest`` tokens, whose lengths differ by at most one.

    Each chunk but the first begins with the last ``overlap`` tokens of the previous one. The longer chunks come first,
    because chunks of equal length are read together.
    """
    if len(document) <= longest:
        return [tuple(document)] if document else []
    new = len(document) - overlap  # each chunk adds the tokens after its overlap
    count = -(-new // (longest - overlap))
    size, longer = divmod(new, count)
    ends = [size * number + min(number, longer) for number in range(count + 1)]
    return [tuple(document[start : end + overlap]) for start, end in pairwise(ends)]


def bytes_per_token(forward: LlamaForward) -> int:
    """Return the size in bytes of one token's keys and values in all layers."""
    _, stored = forward.heads
    return 2 * forward.sizes[2] * stored * forward.head_width * forward.dtype.itemsize


class ChunkGroup:
    """Chunks of equal length that are read together.

    Attributes:
        tokens: # [chunks, length]
        first: index of the first chunk in the document.
        kept: whether keys and values are kept between tokens of the answer.
    """

    def __init__(self, tokens: Tensor, first: int, *, kept: bool) -> None:
        self.tokens, self.first, self.kept = tokens, first, kept
        self._cache: KeyValueCache | None = None
        self._appended: list[int] = []  # the tokens after each chunk that are in the cache

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def cached_bytes(self) -> int:
        """Size in bytes of the keys and values that are kept."""
        return 0 if self._cache is None else self._cache.slots * self._cache.bytes_per_slot

    def read(self, forward: LlamaForward, appended: Sequence[int]) -> tuple[KeyValueCache, int]:
        """Read each chunk and the tokens ``appended`` to it, except those that are in the cache.

        Returns:
            the keys and values of the group, and how many of their slots are in use.
        """
        (count, length), device = self.tokens.shape, self.tokens.device
        slots, same = length + len(appended), 0
        if self._cache is None:
            cache, known = KeyValueCache(count), False
            cache.capacity = blocks(slots + _SPARE if self.kept else slots)
        else:
            cache, known = self._cache, True
            while same < min(len(self._appended), len(appended)) and self._appended[same] == appended[same]:
                same += 1
        tail = torch.tensor([[*appended[same:]]] * count, device=device, dtype=torch.long)  # [chunks, new]
        new = tail if known else torch.cat((self.tokens, tail), 1)
        start = slots - new.shape[1]
        if new.shape[1]:
            positions = torch.arange(start, slots, device=device).repeat(count, 1)
            last = torch.tensor([new.shape[1] - 1], device=device)
            forward(Rows(new, positions, slots), cache, last)
        if self.kept:
            self._cache, self._appended = cache, [*appended]
        return cache, slots


class Chunks:
    """All chunks of a document, in groups that are each read in one forward.

    Keys and values of the first groups are kept between tokens and questions, up to ``kept_bytes``. The others are
    read again for each token.

    Args:
        forward: the model.
        chunks: tokens of the chunks; chunks of equal length are adjacent.
        rows: maximum number of tokens read in one forward, unless a single chunk is longer.
        appended: number of tokens that will follow each chunk.
        kept_bytes: see above.
        device: device of the model.
    """

    def __init__(
        self,
        forward: LlamaForward,
        chunks: Sequence[tuple[int, ...]],
        *,
        rows: int,
        appended: int,
        kept_bytes: int,
        device: torch.device,
    ) -> None:
        self._forward = forward
        self.count = len(chunks)
        self.groups: list[ChunkGroup] = []
        start = 0
        while start < len(chunks):
            length = len(chunks[start])
            end, most = start + 1, max(1, rows // (length + appended))
            while end < len(chunks) and end - start < most and len(chunks[end]) == length:
                end += 1
            needed_bytes = (end - start) * blocks(length + appended + _SPARE) * bytes_per_token(forward)
            kept_bytes -= needed_bytes
            tokens = torch.tensor(chunks[start:end], device=device)
            self.groups.append(ChunkGroup(tokens, start, kept=kept_bytes >= 0))
            start = end

    @property
    def cached_bytes(self) -> int:
        """Size in bytes of the keys and values that are kept."""
        return sum(group.cached_bytes for group in self.groups)

    def read(self, appended: Sequence[int]) -> Iterator[tuple[ChunkGroup, KeyValueCache, int]]:
        """Read the groups, with these tokens after each chunk; see `ChunkGroup.read`."""
        for group in self.groups:
            yield (group, *group.read(self._forward, appended))
