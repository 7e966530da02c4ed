"""FocusLLM: the chunks of a document are read in parallel, and each gives one candidate token to a frozen decoder.

Every chunk is followed by the last tokens of the local context. At the last of them, the *candidate position*, the
decoder runs with projections of query, key, value and output that were trained for it; all other positions run frozen.
The keys and values of the candidates, in the order of the chunks, are the past of the frozen decoder over the local
context: they have the positions 0 to k - 1, and the local context begins at k. Every chunk begins at position 0, so
positions are limited by the length of a chunk, and by the number of candidates plus the local context.

Each token of the answer needs new candidates: all chunks advance by one token.

Li et al., "FocusLLM: Precise understanding of long context by dynamic condensing", arXiv:2408.11745.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.focus.changed_layers import LayerChange, attention, attention_of_one, rotated, run
from stretto.local_engine.research.focus.document_chunks import Chunks, cut
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter
from stretto.local_engine.serving.long_prompts import FocusOptions

_CHUNK = 256  # tokens, unless options or adapter say otherwise

Candidates = tuple[list[Tensor], list[Tensor]]
"""Keys and values, each by layer # [layers][chunks, rows, key_value_heads, head_dim]"""


def candidates(
    forward: LlamaForward,
    changes: Sequence[LayerChange] | None,
    tokens: Tensor,
    past: KeyValueCache,
    *,
    slots: Tensor,
    ranks: Tensor,
) -> tuple[Candidates, Tensor]:
    """Run candidate positions after the sequences of a cache, independently of each other; the cache is not changed.

    Args:
        forward: the model.
        changes: the trained projections.
        tokens: tokens at the candidate positions # [chunks, rows]
        past: keys and values before them.
        slots: number of past slots that each candidate sees, which is also its position, ascending # [rows]
        ranks: position of each chunk's candidate among all candidates # [chunks]

    Returns:
        the candidates, with keys rotated to these positions, and their final states # [chunks, rows, hidden]
    """
    found: Candidates = ([], [])
    by = ranks[:, None] - slots
    (chunks, rows), last = tokens.shape, int(slots[-1])
    itself = torch.eye(rows, dtype=torch.bool, device=tokens.device)
    every = torch.arange(last, device=tokens.device)
    whole = torch.cat((every < slots[:, None], itself), 1)[None]  # [1, rows, slots + rows]

    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
        known = past.layer(layer, last)
        found[0].append(rotated(forward, keys, by))
        found[1].append(values)
        if rows == 1 and window is None and not torch.is_grad_enabled():  # this reads the cache in place
            return attention_of_one(queries, known, keys, values).flatten(2)
        visible = whole
        if window is not None:
            visible = whole & torch.cat((every > slots[:, None] - window, itself), 1)
        both = [torch.cat((old, new), 1) for old, new in zip(known, (keys, values), strict=True)]
        return attention(queries, both[0], both[1], visible)[0].flatten(2)

    return found, run(forward, tokens, slots.expand(chunks, rows), attend, changes)


def states_of(forward: LlamaForward, tokens: Sequence[int], device: torch.device) -> Candidates:
    """Return the keys and values of tokens from position 0 on, as if each of them were a candidate."""
    cache, count = KeyValueCache(1), len(tokens)
    forward(Rows.following(tokens, 0, device), cache, torch.tensor([count - 1], device=device))
    layers = [cache.layer(number, count) for number in range(forward.sizes[2])]
    return [keys.transpose(0, 1).clone() for keys, _ in layers], [
        values.transpose(0, 1).clone() for _, values in layers
    ]


class FocusReader:
    """Answers questions about one document, one at a time.

    Args:
        forward: the frozen decoder.
        adapter: projections for candidate positions; ``None`` for the frozen ones.
        document: tokens of the document.
        options: how the document is cut, and what is kept.
        device: device of the model.
        head: tokens before each chunk, such as the one that begins every text.

    Attributes:
        chunks: chunks of the document; each gives one candidate.
    """

    def __init__(
        self,
        forward: LlamaForward,
        adapter: FocusAdapter | None,
        document: Sequence[int],
        options: FocusOptions,
        *,
        device: torch.device,
        head: Sequence[int] = (),
    ) -> None:
        self._forward, self._options, self._device = forward, options, device
        self._changes = None if adapter is None else adapter.layers
        self._head, self._sink = [*head], list[Candidates]()
        longest = options.chunk or (adapter.chunk if adapter is not None else 0) or _CHUNK
        overlap = min(options.overlap, longest // 2)
        self.chunks = Chunks(
            forward,
            [(*head, *chunk) for chunk in cut(document, longest, overlap)],
            rows=options.rows,
            appended=options.appended,
            kept_bytes=options.kept_bytes,
            device=device,
        )

    @property
    def cached_bytes(self) -> int:
        """Size in bytes of the keys and values that are kept between tokens."""
        return self.chunks.cached_bytes

    def read(self, local: Sequence[int], answer: Sequence[int] = ()) -> Iterator[Tensor | None]:
        """Compute the logits after the local context and the answer so far.

        Results of earlier calls are reused. Each item takes one or two forwards; a request can be cancelled in between.

        Args:
            local: tokens of the local context, at least one.
            answer: tokens generated so far.

        Yields:
            ``None`` after each group of chunks, and last the logits # [vocabulary]
        """
        appended = [*local[-self._options.appended :], *answer]
        found: list[Candidates] = []
        for group, cache, slots in self.chunks.read(appended[:-1]):
            last = torch.full((len(group), 1), appended[-1], device=self._device)
            here = torch.tensor([slots], device=self._device)
            first = len(self._head) + group.first
            ranks = torch.arange(first, first + len(group), device=self._device)
            found.append(candidates(self._forward, self._changes, last, cache, slots=here, ranks=ranks)[0])
            yield None
        yield self._decode([*local, *answer], found)

    def _decode(self, local: Sequence[int], found: Sequence[Candidates]) -> Tensor:
        """Run the frozen decoder over the local context, after the candidates."""
        count = len(self._head) + self.chunks.count
        cache = KeyValueCache(1)
        if self._head and not self._sink:
            self._sink = [states_of(self._forward, self._head, self._device)]
        if before := [*self._sink, *found]:
            past = [
                [torch.cat(layers).transpose(0, 1) for layers in zip(*(each[kind] for each in before), strict=True)]
                for kind in (0, 1)
            ]  # [layers][1, head + chunks, key_value_heads, head_dim]
            cache = KeyValueCache.of(past[0], past[1], count + len(local))
        last = torch.tensor([len(local) - 1], device=self._device)
        logits = self._forward(Rows.following(local, count, self._device), cache, last)
        return logits[0, 0]
