"""Reading prompts: before the first step, their keys and values are computed many rows at a time."""

from __future__ import annotations

from collections.abc import Sequence as Indices

import torch
from torch import Tensor

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.forward import Forward
from stretto.local_engine.sequence import Sequence

__all__ = ["Prefill", "common_prefix"]

_MASK_ELEMENTS = 2**22


class Prefill:
    """Reads the prompts of some requests together, one forward per call of `advance`.

    First the tokens that all prompts begin with are read, once; then what is left of each prompt, together.

    Args:
        forward: runs the model.
        sequences: the requests, at least one.
        device: where the model is.
        rows: prompt tokens of each request to read in one forward at most.
        known: a cache of one sequence that holds tokens all prompts begin with, not the whole of any; none of
            them is read again.
    """

    def __init__(
        self,
        forward: Forward,
        sequences: Indices[Sequence],
        device: torch.device,
        *,
        rows: int = 512,
        known: KeyValueCache | None = None,
    ) -> None:
        self.sequences = list(sequences)
        self.cache = known or KeyValueCache(1)
        self._forward = forward
        self._device = device
        self._rows = rows
        prompts = [sequence.request.prompt for sequence in sequences]
        # At least one token of each prompt is left to read: its logits choose the first new token.
        self._shared = common_prefix(prompts) if len(prompts) > 1 else 0
        self._read = self.cache.extent  # prompt tokens read so far
        for number, sequence in enumerate(self.sequences):
            sequence.cached = self._shared if number else self._read
        self._last: list[Tensor | None] = [None] * len(prompts)  # logits of the last prompt token # [vocabulary]
        self._zero = torch.zeros(1, dtype=torch.long, device=device)

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
        if self.cache.batch > 1:
            self.cache.keep(rows)

    def _read_shared(self) -> None:
        start, stop = self._read, min(self._shared, self._read + self._chunk(self._shared))
        ids = [self.sequences[0].request.prompt[start:stop]]
        self._forward(self._prompt_rows(ids, start, stop), self.cache, self._zero)
        self._read = stop

    def _read_rest(self) -> None:
        prompts = [sequence.request.prompt for sequence in self.sequences]
        if self.cache.batch != len(prompts):
            self.cache.spread(len(prompts))
        longest = max(map(len, prompts))
        start, stop = self._read, min(longest, self._read + self._chunk(longest))
        # Shorter prompts are padded on the right. Nothing sees the padding: its slots are written again by the
        # tokens generated later, before any mask lets them through.
        ids = [prompt[start:stop] + (0,) * (stop - max(start, len(prompt))) for prompt in prompts]
        ends = [len(prompt) - 1 - start for prompt in prompts]
        wanted = sorted({end for end in ends if 0 <= end < stop - start})
        keep = torch.tensor(wanted or [0], device=self._device)
        logits = self._forward(self._prompt_rows(ids, start, stop), self.cache, keep)
        for row, end in enumerate(ends):
            if 0 <= end < stop - start:
                self._last[row] = logits[row, wanted.index(end)]
        self._read = stop

    def _prompt_rows(self, ids: Indices[Indices[int]], start: int, stop: int) -> Rows:
        positions = torch.arange(start, stop, device=self._device).expand(len(ids), -1)
        return Rows(torch.tensor(ids, device=self._device), positions, stop)

    def _chunk(self, extent: int) -> int:
        """Prompt tokens to read in one forward, such that the mask and the wait of a cancelled request stay small."""
        return max(16, min(self._rows, _MASK_ELEMENTS // (self.cache.batch * extent)))


def common_prefix(prompts: Indices[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with, the last token of the shortest left out."""
    first, last = min(prompts), max(prompts)
    limit = min(map(len, prompts)) - 1
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), limit)
    return min(same, limit)
