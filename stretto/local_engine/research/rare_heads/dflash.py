"""DFlash heads: one forward fills a block of masked tokens that attend to the model's states and to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.drafting.heads.decoder import Decoder, Shape, Weights, whole_number
from stretto.local_engine.drafting.heads.head_words import embedding_of, last_product, layers_named, words_of
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.products import Weight, product
from stretto.local_engine.model.forward.rows import Rows
from stretto.values.errors import SettingsError

_Linear = tuple[Tensor, Tensor | None]
"""Weight and bias."""


class Markov:
    """A low-rank table of what follows each token, optionally gated by the state or with a recurrent memory.

    Args:
        before: vectors of the previous token # [vocabulary, rank]
        after: vectors of the next token # [words, rank]
        gate: weight and bias of the gate, which reads the state and ``before`` # [rank, hidden + rank], [rank]
        cell: weight and bias of a recurrent cell, which reads its memory, ``before`` and the state; its outputs are the
            forget gate, the new memory and the output # [3 * rank, 2 * rank + hidden], [3 * rank]
    """

    def __init__(self, before: Tensor, after: Weight, gate: _Linear | None, cell: _Linear | None) -> None:
        self._before, self._after, self._gate, self._cell = before, after, gate, cell

    @property
    def rank(self) -> int:
        """Length of the vector of each token."""
        return int(self._before.shape[1])

    @classmethod
    def of(cls, weights: Weights, config: Mapping[str, Any], hidden: int) -> Markov | None:
        """Read it from a head's weights; ``None`` if there is none. Raises `SettingsError` for an unknown kind."""
        rank = whole_number(config, "markov_rank", weights.where, least=0, usual=0)
        kind = config.get("markov_head_type", "vanilla")
        if not rank:
            return None
        if kind not in ("vanilla", "gated", "rnn"):
            raise SettingsError(
                f"The head in {weights.where} cannot be run: its Markov head is of the kind {kind}, and known are "
                "vanilla, gated and rnn."
            )

        def linear(name: str, outer: int, inner: int) -> _Linear:
            return weights.get(f"markov_head.{name}.weight", outer, inner), weights.find(
                f"markov_head.{name}.bias", outer
            )

        gate = linear("gate_proj", rank, hidden + rank) if kind == "gated" else None
        cell = linear("joint_proj", 3 * rank, 2 * rank + hidden) if kind == "rnn" else None
        name = "markov_head.markov_w"
        before, after = weights.get(f"{name}1.weight", -1, rank), weights.matrix(f"{name}2.weight", -1, rank)
        return cls(before, after, gate, cell)

    def begin(self) -> Tensor:
        """Return the initial memory of a block # [1, rank]."""
        return self._before.new_zeros(1, self.rank)

    def read(self, tokens: Tensor) -> Tensor:
        """Look up the vectors of the previous tokens # [rows] -> [rows, rank]."""
        return embedding(tokens, self._before)

    def __call__(self, tokens: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is added to the logits of a place, and the memory after it.

        Args:
            tokens: previous tokens # [rows]
            state: state of the block at this place # [hidden]
            memory: memory after the previous place # [rows, rank]

        Returns:
            # [rows, words], [rows, rank]
        """
        read = self.read(tokens)
        states = state.expand(len(read), -1)
        if self._gate is not None:
            read = read * product(torch.cat((states, read), -1), *self._gate).sigmoid()
        elif self._cell is not None:
            kept, new, out = product(torch.cat((memory, read, states), -1), *self._cell).chunk(3, -1)
            memory = torch.lerp(new.tanh(), memory, kept.sigmoid())
            read = out.tanh()
        return product(read, self._after), memory


class Confidence:
    """Predicts how likely the best token of a place is accepted, from the block's state and the previous token.

    Args:
        weight: # [hidden, or hidden + rank]
        bias: # [1]
        markov: provides the vector of the previous token; ``None`` if only the state is read.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, markov: Markov | None) -> None:
        self._weight, self._bias, self._markov = weight, bias, markov

    @classmethod
    def of(cls, weights: Weights, hidden: int, markov: Markov | None) -> Confidence:
        """Read it from a head's weights."""
        name = "confidence_head.proj"
        rank = 0 if markov is None else markov.rank
        return cls(weights.get(f"{name}.weight", 1, hidden + rank)[0], weights.find(f"{name}.bias", 1), markov)

    def __call__(self, tokens: Tensor, state: Tensor) -> list[float]:
        """Return the probability at a place with this state, after each of these tokens."""
        read = state.expand(len(tokens), -1)
        if self._markov is not None:
            read = torch.cat((read, self._markov.read(tokens)), -1)
        found = read @ self._weight
        found = found if self._bias is None else found + self._bias
        sure: list[float] = found.sigmoid().tolist()
        return sure


_READ_AT_ONCE = 512
_MOST = 1000  # layers, and places of a block
_NAMED = ("aux_hidden_state_layer_ids", "target_layer_ids")


class DFlash:
    """DFlash (arXiv 2602.06036), and DSpark, which adds a Markov table of the previous token.

    Every committed token has keys and values computed from the model's states: ``norm(fc(states))``. A block begins
    with the last committed token, followed by masks. One forward fills them: place i predicts the i-th token after the
    last one, or the one after that if ``sample_from_anchor`` is set.

    Args:
        weights: weights under the names of speculators.
        config: ``config.json``, with the sizes of the layers at the top level.
        target: the model.
        shifted: whether layers are numbered from the first layer's output on, as z-lab and transformers do.
    """

    kind = "dflash"

    def __init__(
        self,
        weights: Weights,
        config: Mapping[str, Any],
        target: Target,
        *,
        shifted: bool = False,
    ) -> None:
        where = weights.where
        shape = Shape.of(config, where)
        hidden = shape.hidden
        fused = weights.get("fc.weight", hidden, -1)
        self._fuse = weights.converted(fused)
        count = fused.shape[1] // target.hidden
        field = next((name for name in _NAMED if config.get(name)), _NAMED[0])
        self.layers = layers_named(config.get(field), count, target, where, field=field, shifted=shifted)
        self.from_anchor = bool(config.get("sample_from_anchor", False))
        self.block = whole_number(config, "block_size", where, least=1 if self.from_anchor else 2, below=_MOST)
        self.mask = whole_number(config, "mask_token_id", where, least=0, below=target.vocabulary)
        self.words = words_of(weights, target)
        self.embed = embedding_of(weights, target, hidden)
        self._state_norm = weights.norm("hidden_norm", hidden, shape.epsilon)
        number = whole_number(config, "num_hidden_layers", where, below=_MOST, usual=1)
        kinds = config.get("layer_types") or ["full_attention"] * number
        if not isinstance(kinds, list) or len(kinds) < number:
            raise SettingsError(
                f"The head in {where} cannot be run: layer_types is {safe_repr(kinds)} in its config.json, and a list "
                f"of the kinds of its {number} layers is needed."
            )
        slides = [kind == "sliding_attention" and bool(config.get("sliding_window")) for kind in kinds[:number]]
        windows = [whole_number(config, "sliding_window", where) if slide else None for slide in slides]
        ahead = bool(config.get("sliding_window_non_causal"))
        self._decoder = Decoder(
            weights, [f"layers.{each}." for each in range(number)], shape, windows=windows, ahead=ahead
        )
        self._norm = weights.norm("norm", hidden, shape.epsilon)
        self._read_out = last_product(weights, hidden, target, with_words=self.words is not None)
        self.foresees = self.block if self.from_anchor else self.block - 1
        self.markov = Markov.of(weights, config, hidden)
        self.confidence = None
        if config.get("enable_confidence_head"):
            with_markov = self.markov is not None and bool(config.get("confidence_head_with_markov"))
            self.confidence = Confidence.of(weights, hidden, self.markov if with_markov else None)
        self.target, self.dtype = target, weights.dtype

    def reader(self) -> _DFlashReader:
        return _DFlashReader(self)

    def take_in(self, states: Tensor, rows: Rows, cache: KeyValueCache) -> None:
        """Write the keys and values of committed tokens, given their states # [rows, layers * hidden]."""
        fused = self._state_norm(product(states.to(self.dtype), self._fuse))
        self._decoder.remember(fused[None], rows, cache)

    def fill(self, tokens: Tensor, rows: Rows, cache: KeyValueCache) -> Tensor:
        """Fill the masks, and return the final states # [1, block] -> [block, hidden]."""
        return self._norm(self._decoder.filled(self.embed(tokens).to(self.dtype), rows, cache))[0]

    def logits(self, final: Tensor) -> Tensor:
        """Return logits over the head's vocabulary # [rows, hidden] -> [rows, words]."""
        return self.target.read_out(final) if self._read_out is None else product(final, self._read_out)


class _DFlashReader:
    """Reader of one sequence, with the keys and values of its committed tokens."""

    def __init__(self, head: DFlash) -> None:
        self._head, self._device = head, head.target.device
        self._cache, self._committed = KeyValueCache(1), 0
        self._unread: list[Tensor] = []
        self._token = 0
        self._final: Tensor | None = None  # one for each place of the block # [foreseen, hidden]
        self._foreseen: dict[int, Tensor] = {}  # logits by place # [1, words]
        self._depths: list[int] = []  # of the nodes that were followed
        self._memories: list[Tensor] = []  # of the Markov table, after the text and these nodes # [rank]
        self.sure: Sequence[float] | None = None
        self.begins = 0

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """See `Reader`. The work is delayed until the next draft begins, or many rows have accumulated."""
        self._unread.append(states)
        self._token = tokens[-1]
        if sum(map(len, self._unread)) >= _READ_AT_ONCE:
            self._catch_up()

    def first(self) -> Tensor:
        head = self._head
        if self._unread:
            self._catch_up()
        tokens = [self._token] + [head.mask] * (head.block - 1)
        rows = Rows.following(tokens, self._committed, self._device)
        final = head.fill(rows.tokens, rows, self._cache)
        self._final, self._foreseen, self._depths = final if head.from_anchor else final[1:], {}, []
        self._memories, memories = [], list[Tensor]()
        if head.markov is not None:
            memory = head.markov.begin()
            if not head.from_anchor:  # the first place predicts nothing, but updates the memory
                _, memory = head.markov(rows.tokens[0, :1], final[0], memory)
            memories += memory
        return self._logits([self._token], 0, memories)

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        depths = [self._depths[parent] + 1 if parent >= 0 else 1 for parent in parents]
        self._depths += depths
        if depths[0] >= self._head.foresees:
            return None
        return self._logits(tokens, depths[0], [self._memories[parent + 1] for parent in parents if self._memories])

    def _catch_up(self) -> None:
        states, self._unread = torch.cat(self._unread), []
        for start in range(0, len(states), _READ_AT_ONCE):
            some = states[start : start + _READ_AT_ONCE]
            self._head.take_in(some, Rows.following([0] * len(some), self._committed, self._device), self._cache)
            self._committed += len(some)

    def _logits(self, tokens: Sequence[int], place: int, memories: list[Tensor]) -> Tensor:
        """Return the logits at a place of the block, after each of these tokens, given a Markov table's memories."""
        head, final = self._head, self._final
        assert final is not None  # noqa: S101 - for the type checker
        if place not in self._foreseen:
            self._foreseen[place] = head.logits(final[place : place + 1])
        logits = self._foreseen[place].expand(len(tokens), -1)
        before = torch.tensor(tokens, device=self._device)
        if head.confidence is not None:
            self.sure = head.confidence(before, final[place])
        if head.markov is None:
            return logits
        added, updated = head.markov(before, final[place], torch.stack(memories))
        self._memories += updated
        return logits + added
