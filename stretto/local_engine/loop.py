"""The loop of every decoding method: draft, one forward, verify, commit; here for the empty draft."""

from __future__ import annotations

from collections.abc import Sequence as Indices

import torch
from torch import Tensor

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.forward import Forward
from stretto.local_engine.sampling import Sampler
from stretto.local_engine.sequence import Sequence

__all__ = ["Batch", "common_prefix"]

_MASK_ELEMENTS = 2**22


class Batch:
    """Some requests decoded together, one forward per call of `advance`.

    First the tokens that all prompts begin with are read, once; then what is left of each prompt, together;
    then every forward is a step: the draft of autoregressive decoding is empty, so its one row is the last
    committed token, and the token chosen from that row's logits is committed.

    Args:
        forward: runs the model.
        sequences: the requests, at least one.
        device: where the model is.
        prefill_rows: prompt tokens of each request to read in one forward at most.
    """

    def __init__(
        self, forward: Forward, sequences: Indices[Sequence], device: torch.device, *, prefill_rows: int = 512
    ) -> None:
        self.sequences = list(sequences)
        self._forward = forward
        self._device = device
        self._prefill_rows = prefill_rows
        self._sampler = Sampler([sequence.request for sequence in sequences], device)
        prompts = [sequence.request.prompt for sequence in sequences]
        # At least one token of each prompt is left to read: its logits choose the first new token.
        self._shared = common_prefix(prompts) if len(prompts) > 1 else 0
        for sequence in self.sequences[1:]:
            sequence.cached = self._shared
        self._cache = KeyValueCache(1)
        self._read = 0  # prompt tokens read so far
        self._last: list[Tensor | None] = [None] * len(prompts)  # logits of the last prompt token # [vocabulary]
        self._zero = torch.zeros(1, dtype=torch.long, device=device)
        self._tokens = self._positions = self._zero.view(1, 1)
        self._extent = 0  # of the coming step; 0 while prompts are read

    def advance(self) -> list[list[int]]:
        """Run one forward; the tokens committed by it for each sequence, none while prompts are read."""
        if self._extent:
            return self._commit(self._verify(self._forward(self._draft(), self._cache, self._zero)))
        if self._read < self._shared:
            self._prefill_shared()
        elif any(logits is None for logits in self._last):
            self._prefill_rest()
        logits = [logits for logits in self._last if logits is not None]
        if len(logits) < len(self.sequences):
            return [[] for _ in self.sequences]
        lengths = [len(sequence.request.prompt) for sequence in self.sequences]
        self._positions = torch.tensor(lengths, device=self._device)[:, None] - 1
        self._extent = max(lengths)
        return self._commit(self._verify(torch.stack(logits)[:, None]))

    def keep(self, rows: Indices[int]) -> None:
        """Keep only these sequences, in this order; the others leave the batch and free their cache."""
        if len(rows) == len(self.sequences):
            return
        self.sequences = [self.sequences[row] for row in rows]
        self._last = [self._last[row] for row in rows]
        self._sampler.keep(rows)
        if self._cache.batch > 1:
            self._cache.keep(rows)
        if len(self._tokens) > 1:
            chosen = torch.tensor(rows, device=self._device)
            self._tokens, self._positions = self._tokens[chosen], self._positions[chosen]
            self._extent = max((len(s.request.prompt) + len(s.generated) for s in self.sequences), default=0)

    def _draft(self) -> Rows:
        """Propose the rows of a step: the last committed tokens, and nothing after them."""
        return Rows(self._tokens, self._positions, self._extent)

    def _verify(self, logits: Tensor) -> Tensor:
        """Choose the next tokens from the logits # [batch, 1, vocabulary] -> [batch]; no draft can fail."""
        return self._sampler.choose(logits[:, 0])

    def _commit(self, chosen: Tensor) -> list[list[int]]:
        """Append the chosen tokens # [batch]; one small copy to the host."""
        self._tokens = chosen[:, None]
        self._positions = self._positions + 1
        self._extent += 1
        return [[token] for token in chosen.tolist()]

    def _prefill_shared(self) -> None:
        start, stop = self._read, min(self._shared, self._read + self._chunk(self._shared))
        ids = [self.sequences[0].request.prompt[start:stop]]
        self._forward(self._prompt_rows(ids, start, stop), self._cache, self._zero)
        self._read = stop

    def _prefill_rest(self) -> None:
        prompts = [sequence.request.prompt for sequence in self.sequences]
        if self._cache.batch != len(prompts):
            self._cache.spread(len(prompts))
        longest = max(map(len, prompts))
        start, stop = self._read, min(longest, self._read + self._chunk(longest))
        # Shorter prompts are padded on the right. Nothing sees the padding: its slots are written again by the
        # tokens generated later, before any mask lets them through.
        ids = [prompt[start:stop] + (0,) * (stop - max(start, len(prompt))) for prompt in prompts]
        ends = [len(prompt) - 1 - start for prompt in prompts]
        wanted = sorted({end for end in ends if 0 <= end < stop - start})
        keep = torch.tensor(wanted or [0], device=self._device)
        logits = self._forward(self._prompt_rows(ids, start, stop), self._cache, keep)
        for row, end in enumerate(ends):
            if 0 <= end < stop - start:
                self._last[row] = logits[row, wanted.index(end)]
        self._read = stop

    def _prompt_rows(self, ids: Indices[Indices[int]], start: int, stop: int) -> Rows:
        positions = torch.arange(start, stop, device=self._device).expand(len(ids), -1)
        return Rows(torch.tensor(ids, device=self._device), positions, stop)

    def _chunk(self, extent: int) -> int:
        """Prompt tokens to read in one forward, such that the mask and the wait of a cancelled request stay small."""
        return max(16, min(self._prefill_rows, _MASK_ELEMENTS // (self._cache.batch * extent)))


def common_prefix(prompts: Indices[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with, the last token of the shortest left out."""
    first, last = min(prompts), max(prompts)
    limit = min(map(len, prompts)) - 1
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), limit)
    return min(same, limit)
