"""Star attention: blocks are read in parallel after an anchor, and a query then sees all of them.

In the first phase each block of the document is read after the first one, its *anchor*, and sees nothing else. So the
attention sinks that every softmax needs are those of the anchor, and not the first tokens of each block. The anchor's
keys and values are dropped. In the second phase the tokens of the query and of the answer attend to the keys and values
of all blocks. The parts of the softmax are merged by the logarithms of their sums, which is exact. Nothing is trained.

A document of one or two blocks is read exactly as by full attention. In a longer one, tokens do not see the blocks
between the anchor and theirs.

The anchor has the positions directly before each block, so it is read once for all of them. Keys are rotated to their
positions in the document afterwards. Where the document is longer than the positions that the model knows, the keys are
left as they are, and all blocks share the same positions (Ratner et al., arXiv:2212.10947).

Acharya et al., "Star attention: Efficient LLM inference over long sequences", arXiv:2411.17116.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from stretto.errors import SettingsError
from stretto.local_engine.long_context.decoder import attention, rotated, run
from stretto.local_engine.long_context.reader_options import StarOptions
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.rows import Rows

__all__ = ["StarReader", "merged"]

_Part = tuple[
    list[Tensor], list[Tensor]
]  # keys and values by layer # [layers][blocks, block, key_value_heads, head_dim]


def merged(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Merge attention over several sets of slots into attention over all of them.

    Args:
        parts: of each the mixed values # [batch, rows, heads, head_dim], and the log-sum-exp of its scores
            # [batch, rows, heads]

    Returns:
        # [batch, rows, heads, head_dim]
    """
    shares = torch.stack([sums for _, sums in parts]).softmax(0)[..., None]  # [parts, batch, rows, heads, 1]
    return (torch.stack([mixed for mixed, _ in parts]) * shares).sum(0).to(parts[0][0].dtype)


class StarReader:
    """Answers questions about one document, one at a time. The keys and values of the whole document are kept.

    Args:
        forward: the model; its layers have no sliding windows.
        document: tokens, the head of the prompt included.
        options: how the document is cut.
        device: where the model is.
        shared: whether all blocks share the same positions, for documents longer than the model's positions.

    Raises `SettingsError` for a model with sliding windows.
    """

    def __init__(
        self,
        forward: LlamaForward,
        document: Sequence[int],
        options: StarOptions,
        *,
        device: torch.device,
        shared: bool = False,
    ) -> None:
        if any(layer.window is not None for layer in forward.layers):
            raise SettingsError(
                "Star attention cannot be used with a model whose layers have sliding windows: its query has to see "
                "the whole document. Use focus reading, or another model."
            )
        self._forward, self._options, self._device, self._shared = forward, options, device, shared
        block = options.block
        self._blocks = [tuple(document[start : start + block]) for start in range(0, len(document), block)]
        self._start = min(2 * block, len(document)) if shared else len(document)  # position of the first query token
        self._parts: list[_Part] = []
        self._reading: Iterator[None] | None = None
        self._known: list[int] = []  # tokens of query and answer whose keys and values are held
        self._own: _Part = ([], [])  # [layers][1, known, key_value_heads, head_dim]

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    @property
    def held_bytes(self) -> int:
        """Bytes of the keys and values of the document."""
        return sum(layer.numel() * layer.element_size() for part in self._parts for kind in part for layer in kind)

    def read(self, local: Sequence[int], answer: Sequence[int] = ()) -> Iterator[Tensor | None]:
        """Score what follows the query and the answer so far; see `FocusReader.read`."""
        self._reading = self._reading or self._read_blocks()
        for _ in self._reading:
            yield None
        wanted, same = [*local, *answer], 0
        while same < min(len(self._known), len(wanted) - 1) and self._known[same] == wanted[same]:
            same += 1
        yield self._query(wanted[same:], same)
        self._known = wanted

    def _read_blocks(self) -> Iterator[None]:
        """The first phase: as many blocks in one forward as ``rows`` allows."""
        if not self._blocks:
            return
        anchor, *others = self._blocks
        first = KeyValueCache(1)
        self._run([anchor], first, 0)
        layers = range(len(self._forward.layers))
        held = [first.layer(number, len(anchor)) for number in layers]
        self._parts.append(([keys for keys, _ in held], [values for _, values in held]))
        yield None
        size = max(1, self._options.rows // len(anchor))
        while others:
            count = size if len(others) > size else max(1, len(others) - 1)  # the last one is shorter
            blocks, others = others[:count], others[count:]
            repeated = [[layer.expand(count, -1, -1, -1) for layer in kind] for kind in self._parts[0]]
            cache = KeyValueCache.of(repeated[0], repeated[1], len(anchor) + len(blocks[0]))
            self._run(blocks, cache, len(anchor))
            done = sum(len(keys[0]) for keys, _ in self._parts)
            moves = torch.arange(done - 1, done - 1 + count, device=self._device) * len(anchor)
            by = (moves * 0 if self._shared else moves)[:, None].expand(count, len(blocks[0]))
            stop = len(anchor) + len(blocks[0])
            keys, values = zip(*(cache.layer(number, stop) for number in layers), strict=True)
            self._parts.append(
                (
                    [rotated(self._forward, layer[:, len(anchor) :], by) for layer in keys],
                    [layer[:, len(anchor) :].clone() for layer in values],
                )
            )
            yield None

    def _run(self, blocks: Sequence[tuple[int, ...]], cache: KeyValueCache, start: int) -> None:
        tokens = torch.tensor(blocks, device=self._device)
        stop = start + tokens.shape[1]
        positions = torch.arange(start, stop, device=self._device).repeat(len(blocks), 1)
        last = torch.tensor([tokens.shape[1] - 1], device=self._device)
        self._forward(Rows(tokens, positions, stop), cache, last)

    def _query(self, tokens: Sequence[int], known: int) -> Tensor:
        """The second phase: tokens after ``known`` ones of query and answer; the logits of the last # [vocabulary]."""
        rows = torch.arange(known, known + len(tokens), device=self._device)
        seen = (torch.arange(known + len(tokens), device=self._device) <= rows[:, None])[None]
        before = self._own
        own: _Part = ([], [])

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:  # noqa: ARG001 - there is none
            new = [keys, values]
            if known:
                new = [torch.cat((kind[layer][:, :known], each), 1) for kind, each in zip(before, new, strict=True)]
            own[0].append(new[0])
            own[1].append(new[1])
            held = [[kind[layer].flatten(0, 1)[None] for kind in part] for part in self._parts]
            parts = [attention(queries, keys, values) for keys, values in held]
            return merged([*parts, attention(queries, new[0], new[1], seen)]).flatten(2)

        ids = torch.tensor([[*tokens]], device=self._device)
        states = run(self._forward, ids, (self._start + rows)[None], attend)
        self._own = own
        return self._forward.read_out(states[0, -1])
