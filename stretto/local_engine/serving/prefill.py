"""Prefill: before the first step, the keys and values of prompts are computed many tokens at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from stretto.local_engine.model.adapters.lora_deltas import adapters_of
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.rows import LayerStates, Rows
from stretto.local_engine.model.forward.segments import parts, segments
from stretto.local_engine.serving.sequence import Sequence as RequestState

_MASK_ELEMENTS = 2**22
_STATES = 2048  # last tokens of a prompt whose hidden states are kept: those of a long one would take gigabytes


class Prefill:
    """Reads the prompts of multiple requests together, one forward per call of `advance`.

    Known prefixes are copied. Then the rest of each is read, in the order of the requests.

    Args:
        forward: runs the model.
        sequences: the requests, at least one.
        device: device of the model.
        tokens: maximum number of tokens, over all prompts, to read in one forward.
        known: for each request, the source of the keys and values of its prompt's first tokens, never of the whole
            prompt; they are copied at once.
        block: number of tokens that see each other. Only whole blocks are read, and none if it is ``None``.
        layers: for each request, the layers whose hidden states its drafter reads.
    """

    def __init__(
        self,
        forward: Forward,
        sequences: Sequence[RequestState],
        device: torch.device,
        *,
        tokens: int = 512,
        known: Sequence[Source | None] = (),
        block: int | None = 1,
        layers: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.sequences = list(sequences)
        self._forward = forward
        self._device = device
        self._block = block or 1
        self._tokens = max(tokens, self._block)
        sources = [*known] or [None] * len(self.sequences)
        longest = max(len(state.request.prompt) for state in self.sequences)
        self.cache = KeyValueCache.copied(sources, longest) if any(sources) else KeyValueCache(len(sources))
        self._read = [source.length if source else 0 for source in sources]  # tokens of each prompt
        lengths = [len(state.request.prompt) for state in self.sequences]
        self._ends = [0 if block is None else length // block * block for length in lengths]
        self.last: list[Tensor | None] = [None] * len(sources)
        """Logits after the last token read of each prompt, unless that was copied # [vocabulary]."""
        self._layers = [*layers] or [()] * len(sources)
        self._states: list[list[Tensor]] = [[] for _ in sources]  # one for each forward # [tokens, layers * hidden]

    @property
    def done(self) -> bool:
        """Whether all prompts are read."""
        return self._read == self._ends

    @property
    def progress(self) -> tuple[int, int]:
        """Number of prompt tokens that are read or were known, and the total. Safe from any thread."""
        return sum(self._read), sum(self._ends)

    @property
    def logits(self) -> Tensor:
        """Logits after each prompt's last token, once all are read # [batch, vocabulary]."""
        return torch.stack([logits for logits in self.last if logits is not None])

    @property
    def states(self) -> list[Tensor | None]:
        """Hidden states of each prompt's last tokens, if wanted # [tokens, layers * hidden]."""
        return [torch.cat(parts) if parts else None for parts in self._states]

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these requests, in this order; at least one."""
        if len(rows) == len(self.sequences):
            return
        self.sequences = [self.sequences[row] for row in rows]
        self.last = [self.last[row] for row in rows]
        self._read = [self._read[row] for row in rows]
        self._ends = [self._ends[row] for row in rows]
        self._layers = [self._layers[row] for row in rows]
        self._states = [self._states[row] for row in rows]
        self.cache.keep(rows)

    def advance(self) -> None:
        """Run one forward."""
        prompts = [state.request.prompt for state in self.sequences]
        counts = self._share([end - read for end, read in zip(self._ends, self._read, strict=True)])
        stops = [read + count for read, count in zip(self._read, counts, strict=True)]
        rows, cache, keep = self._lay_out(prompts, counts, stops)
        if wanted := {layer for own in self._layers for layer in own}:
            rows = replace(rows, states=LayerStates(wanted))
        logits = self._forward(rows, cache, keep)  # [batch, 1, vocabulary]
        if rows.states is not None:
            self._collect(rows.states, counts)
        for row, (end, stop) in enumerate(zip(self._ends, stops, strict=True)):
            if stop == end and counts[row]:
                self.last[row] = logits[row, 0]
        self._read = stops

    def _collect(self, states: LayerStates, counts: Sequence[int]) -> None:
        most = max(counts)
        for number, (layers, count) in enumerate(zip(self._layers, counts, strict=True)):
            if layers and count:
                kept = self._states[number]
                kept.append(states.of(number, slice(most - count, most), layers))
                while sum(map(len, kept[1:])) >= _STATES:
                    del kept[0]

    def _share(self, left: Sequence[int]) -> list[int]:
        """Divide the tokens of one forward, so that the mask and the delay of a cancellation stay small."""
        longest = max(len(state.request.prompt) for state in self.sequences)
        most = max(16, self._block, min(self._tokens, _MASK_ELEMENTS // (len(left) * longest)))
        counts, free = [], self._tokens
        for own in left:
            counts.append(min(own, free, most) // self._block * self._block)
            free -= counts[-1]
        return counts

    def _lay_out(
        self, prompts: Sequence[tuple[int, ...]], counts: Sequence[int], stops: Sequence[int]
    ) -> tuple[Rows, KeyValueCache, Tensor]:
        """Lay out each prompt's next tokens so that all end in the last row, whose logits are wanted.

        A forward that does not skip padding writes it to the slot after the prompt's end. The first generated token
        is written there before any mask reveals that slot.
        """
        most, device = max(counts), self._device
        ids, positions, lines = [], [], []
        real: list[int] = []
        for row, (prompt, count, stop) in enumerate(zip(prompts, counts, stops, strict=True)):
            padding = most - count
            ids.append((0,) * padding + prompt[stop - count : stop])
            positions.append([*(len(prompt),) * padding, *range(stop - count, stop)])
            real += range(row * most + padding, (row + 1) * most)
            lines.append(slice(padding, most))
        padded, divide = len(real) < most * len(counts), parts if self._block == 1 else segments
        own = torch.tensor(positions, device=device)
        rows = Rows(
            torch.tensor(ids, device=device),
            own,
            1 + max(map(max, positions)),
            sees=None if self._block == 1 else (own // self._block + 1) * self._block,
            real=torch.tensor(real, device=device) if padded else None,
            segments=divide(lines, stops) if len(counts) > 1 or device.type == "cpu" else None,
            lengths=tuple(map(len, prompts)) if self._forward.switch is not None else None,
            adapters=adapters_of(state.request.adapter for state in self.sequences),
        )
        return rows, self.cache, torch.tensor([most - 1], device=device)
