"""Reading prompts: before the first step, their keys and values are computed many rows at a time."""

from __future__ import annotations

from collections.abc import Sequence as Indices

import torch
from torch import Tensor

from stretto.local_engine.cache import KeyValueCache, Rows, Source
from stretto.local_engine.forward import Forward
from stretto.local_engine.sequence import Sequence

__all__ = ["Prefill", "common_prefix"]

_MASK_ELEMENTS = 2**22


class Prefill:
    """Reads the prompts of some requests together, one forward per call of `advance`.

    What is known of them is copied. Then the tokens that all prompts begin with are read, once; then what is left of
    each prompt, together, wherever each of them starts.

    Args:
        forward: runs the model.
        sequences: the requests, at least one.
        device: where the model is.
        rows: prompt tokens of each request to read in one forward at most.
        known: for each request, where the keys and values of its prompt's first tokens are, not of the whole; they
            are copied at once.
    """

    def __init__(
        self,
        forward: Forward,
        sequences: Indices[Sequence],
        device: torch.device,
        *,
        rows: int = 512,
        known: Indices[Source | None] = (),
    ) -> None:
        self.sequences = list(sequences)
        self._forward = forward
        self._device = device
        self._rows = rows
        prompts = [sequence.request.prompt for sequence in sequences]
        # At least one token of each prompt is left to read: its logits choose the first new token.
        self._shared = common_prefix(prompts) if len(prompts) > 1 else 0
        self._read = 0  # tokens read of what all prompts begin with
        self._starts = [self._shared] * len(prompts)  # where each prompt's own reading starts
        self._rest = 0  # tokens read since then, of each
        self.cache = self._copy(known)
        self._last: list[Tensor | None] = [None] * len(prompts)  # logits of the last prompt token # [vocabulary]
        self._zero = torch.zeros(1, dtype=torch.long, device=device)

    def _copy(self, known: Indices[Source | None]) -> KeyValueCache:
        best = max((source for source in known if source is not None), key=lambda source: source.length, default=None)
        if best is None:
            for sequence in self.sequences[1:]:
                sequence.cached = self._shared
            return KeyValueCache(1)
        longest = max(len(sequence.request.prompt) for sequence in self.sequences)
        if best.length <= self._shared:  # all prompts begin with it, and perhaps with more that nobody knows
            self._read = best.length
            for number, sequence in enumerate(self.sequences):
                sequence.cached = self._shared if number else best.length
            return KeyValueCache.copied([best], longest)
        # One of them is known beyond what all begin with, so that is known too: none of it is to be read.
        common = Source(best.cache, best.sequence, self._shared) if self._shared else None
        own = [source if source and source.length > self._shared else common for source in known]
        self._starts = [source.length if source else 0 for source in own]
        self._read = self._shared
        for sequence, start in zip(self.sequences, self._starts, strict=True):
            sequence.cached = start
        return KeyValueCache.copied(own, longest)

    @property
    def done(self) -> bool:
        """Whether all prompts are read."""
        return all(logits is not None for logits in self._last)

    @property
    def logits(self) -> Tensor:
        """Logits of each prompt's last token, once all are read # [batch, vocabulary]."""
        return torch.stack([logits for logits in self._last if logits is not None])

    def advance(self) -> None:
        """Run one forward."""
        if self._read < self._shared:
            self._read_shared()
        else:
            self._read_rest()

    def keep(self, rows: Indices[int]) -> None:
        """Keep only these requests, in this order; at least one."""
        if len(rows) == len(self.sequences):
            return
        self.sequences = [self.sequences[row] for row in rows]
        self._last = [self._last[row] for row in rows]
        self._starts = [self._starts[row] for row in rows]
        if self.cache.batch > 1:
            self.cache.keep(rows)

    def _read_shared(self) -> None:
        start, stop = self._read, min(self._shared, self._read + self._chunk(self._shared))
        ids = torch.tensor([self.sequences[0].request.prompt[start:stop]], device=self._device)
        positions = torch.arange(start, stop, device=self._device)[None]
        self._forward(Rows(ids, positions, stop), self.cache, self._zero)
        self._read = stop

    def _read_rest(self) -> None:
        prompts = [sequence.request.prompt for sequence in self.sequences]
        if self.cache.batch != len(prompts):
            self.cache.spread(len(prompts))
        begins = [start + self._rest for start in self._starts]
        left = max(len(prompt) - begin for prompt, begin in zip(prompts, begins, strict=True))
        count = min(left, self._chunk(max(map(len, prompts))))
        # Shorter prompts are padded on the right, in the slot behind their end. Nothing sees the padding: the slot is
        # written again by the first token generated, before any mask lets it through.
        ids, positions = [], []
        for prompt, begin in zip(prompts, begins, strict=True):
            piece = prompt[begin : begin + count]
            padding = count - len(piece)
            ids.append(piece + (0,) * padding)
            positions.append([*range(begin, begin + len(piece)), *(len(prompt),) * padding])
        ends = [len(prompt) - 1 - begin for prompt, begin in zip(prompts, begins, strict=True)]
        wanted = sorted({end for end in ends if 0 <= end < count})
        keep = torch.tensor(wanted or [0], device=self._device)
        rows = Rows(
            torch.tensor(ids, device=self._device),
            torch.tensor(positions, device=self._device),
            1 + max(map(max, positions)),
        )
        logits = self._forward(rows, self.cache, keep)
        for row, end in enumerate(ends):
            if 0 <= end < count:
                self._last[row] = logits[row, wanted.index(end)]
        self._rest += count

    def _chunk(self, extent: int) -> int:
        """Prompt tokens to read in one forward, such that the mask and the wait of a cancelled request stay small."""
        return max(16, min(self._rows, _MASK_ELEMENTS // (self.cache.batch * extent)))


def common_prefix(prompts: Indices[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with, the last token of the shortest left out."""
    first, last = min(prompts), max(prompts)
    limit = min(map(len, prompts)) - 1
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), limit)
    return min(same, limit)
