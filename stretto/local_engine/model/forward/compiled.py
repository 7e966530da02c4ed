"""Runs the compiled forward on torch's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.forward import Inputs, KeyValues, Scratch, Weights, run
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.kernels.sizes import BFLOAT16, FLOAT16, FLOAT32, STOPPED, TABLE
from stretto.local_engine.kernels.thread_team import share
from stretto.local_engine.model.adapters.row_adapter import Owned
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.attention import unpack
from stretto.local_engine.model.forward.llama_family import Family
from stretto.local_engine.model.forward.llama_layer import Layer
from stretto.local_engine.model.forward.rows import LAST, LayerStates, Rows

_NO_WINDOW = 2**62
_STORED = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}
_NO_ANCESTRY = np.empty((0, 0, 0), np.bool_)
_NO_STATES = np.empty((0, 0, 0), np.float32)


class CompiledModel:
    """Runs a model on a CPU whose weights are panels of one type; everything else is float32.

    Args:
        layers: of the model, whose products are panels.
        embedding: # [vocabulary, hidden]; with tied weights the panels of the last product
        norm: after the last layer # [hidden]
        vocabulary: the last product.
        heads: query heads and key-value heads.
        family: differences from other models.
        epsilon: of the norms.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        embedding: Tensor | Panels,
        norm: Tensor,
        vocabulary: Panels,
        heads: tuple[int, int],
        family: Family,
        epsilon: float,
    ) -> None:
        # Compiled code only knows their addresses, so they are kept alive here, whatever becomes of the list.
        self._kept, self._vocabulary, self._embedding = tuple(layers), vocabulary, embedding
        self._stored, width = heads[1], 2 * len(family.rotations[0][0])
        turned, everything = sum(heads), sum(heads) + self._stored
        norms = [each.weight for layer in layers for each in (layer.norm, layer.feed_forward_norm)]
        added = [norm for layer in layers for norm in (layer.output_norm, layer.down_norm)]
        added_norms = [None if each is None else each.weight for each in added]
        products = [[each for each in layer.products.values() if isinstance(each, Panels)] for layer in layers]
        self._like, self._tokens = vocabulary.like, embedding.outer if isinstance(embedding, Panels) else len(embedding)
        self._weights = Weights(
            embedding=_embedding(embedding),
            scale=np.float32(family.scale),
            norms=torch.stack([*norms, norm]).numpy(),
            added_norms=_table(added_norms, norm.shape, (0,)),
            head_norms=_table([layer.query_key_norm for layer in layers], (turned, width), (turned, 0)),
            first_bias=_table([layer.query_key_value_bias for layer in layers], (everything, width), (0, width)),
            second_bias=_table([layer.output_bias for layer in layers], norm.shape, (0,)),
            frequencies=torch.stack([frequencies for frequencies, _ in family.rotations]).numpy(),
            amplitudes=np.array([amplitude for _, amplitude in family.rotations], np.float32),
            rotations=np.array(family.turns, np.int64),
            epsilon=np.float32(epsilon),
            gates_by_gelu=family.gates_by_gelu,
            windows=np.array([layer.window or _NO_WINDOW for layer in layers], np.int64),
            num_kv_heads=self._stored,
            products=np.array([[weight.address for weight in each] for each in products], np.int64),
            vocabulary=vocabulary.address,
        )
        self._none_taken = np.full(len(layers), -1)
        self._size = sum(weight.size for each in products for weight in each) + vocabulary.size
        stream, inner = tuple(norm.shape), products[0][-1].inner
        # Shapes of a row.
        self._room = (stream, (everything, width), (heads[0], width), (2 * inner,), (inner,), stream)

    @property
    def embedding(self) -> Embedding | None:
        """Where compiled code finds input vectors, while this object is alive; ``None`` if they are scaled."""
        return self._weights.embedding if self._weights.scale == 1 else None

    def takes(self, rows: Rows, keep: Tensor) -> bool:
        """Return whether it can run these rows: all logits are wanted, or, without a tree, those of adjacent rows."""
        if len(keep) == rows.tokens.shape[1]:
            return True
        return rows.ancestry is None and len(keep) > 0 and int(keep[-1]) - int(keep[0]) == len(keep) - 1

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor, adapter: Owned | None = None) -> Tensor:
        """See `stretto.local_engine.model.forward.forward.Forward`; ``adapter``: of these rows."""
        (batch, wide), kept = rows.tokens.shape, keep.shape[0]  # len() of a tensor takes as long as a small operation
        tokens = _whole(rows.tokens).reshape(-1)
        batches, lines = _sequences_and_lines(batch, wide)
        if rows.real is not None:
            real = rows.real.numpy()
            tokens, batches, lines = tokens[real], batches[real], lines[real]
        wanted = _all(len(tokens))
        if kept < wide or rows.wanted is not None:
            first = int(keep[0])
            least = first if rows.wanted is None else wide - np.array(rows.wanted)[batches]
            wanted = np.nonzero((least <= lines) & (lines < first + kept))[0]
        if (adapter is None and tokens.min() < 0) or tokens.max() >= self._tokens:
            raise IndexError(f"a token is none of the model's {self._tokens}")
        positions = _whole(rows.positions)
        slots = positions if rows.slots is None else _whole(rows.slots)
        ancestry = _NO_ANCESTRY if rows.ancestry is None else _whole(rows.ancestry)
        sees = positions + 1 if rows.sees is None else _whole(rows.sees)
        taken, states = self._none_taken, _NO_STATES
        if rows.states is not None:
            taken, states = self._places(rows.states, len(tokens))
        inputs = Inputs(tokens, batches, lines, positions, slots, sees, ancestry, rows.kv_len, wanted, taken, states)
        keys, values = cache.addresses(rows.kv_len, len(self._kept), (self._stored, self._room[1][1]))
        key_values, count = KeyValues(keys, values, cache.capacity), len(tokens)
        shared = [np.empty((count, *shape), np.float32) for shape in self._room]
        scratch = Scratch._make((*shared, np.zeros(1, np.int64)))
        logits = torch.empty(len(wanted), self._vocabulary.filled, dtype=torch.float32)
        added = None if adapter is None else adapter.given
        given, scores = (self._like, self._weights, added, inputs, key_values, scratch), logits.numpy()
        share(
            count * self._size,
            lambda part, parts: run(*given, scores, part, parts),
            lambda: scratch.counter.fill(STOPPED),
        )
        if rows.states is not None:
            _hand_out(rows, taken, states, scratch.final)
        found = logits[:, : self._vocabulary.outer]
        if len(wanted) < batch * kept:  # sequences that were read completely have none
            indices = (batches * kept + lines - int(keep[0]))[wanted]
            found = found.new_zeros(batch * kept, found.shape[-1]).index_copy_(0, torch.from_numpy(indices), found)
        return found.view(batch, kept, -1)

    def _places(self, states: LayerStates, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return where the states of each wanted layer are written; see `Inputs`."""
        taken, layers = self._none_taken.copy(), sorted(states.layers - {LAST})
        taken[layers] = range(len(layers))
        return taken, np.empty((len(layers), count, *self._room[0]), np.float32)


def _hand_out(rows: Rows, taken: NDArray[np.int64], states: NDArray[np.float32], final: NDArray[np.float32]) -> None:
    """Store the requested hidden states # [places, count, hidden], and [count, hidden] for the last."""
    assert rows.states is not None  # noqa: S101 - for the type checker
    for layer in rows.states.layers:
        own = torch.from_numpy(final if layer == LAST else states[taken[layer]])
        if rows.real is not None:
            own = unpack(own[None], rows.real, rows.tokens.numel())
        rows.states.found[layer] = own.view(*rows.tokens.shape, -1)


def _embedding(table: Tensor | Panels) -> Embedding:
    data, layout = (table.held, table.layout) if isinstance(table, Panels) else (table, TABLE)
    if not data.is_contiguous():
        raise ValueError("the input vectors have gaps between them")
    return Embedding(data.data_ptr(), layout, _STORED.get(data.dtype, FLOAT32))


def _whole(tensor: Tensor) -> NDArray[Any]:
    """Make it contiguous, because numba compiles again for every other layout."""
    return np.ascontiguousarray(tensor.numpy())


def _table(parts: Sequence[Tensor | None], shape: Sequence[int], empty: Sequence[int]) -> NDArray[np.float32]:
    """Stack the parts of the layers # [layers, *shape], or if they have none # [layers, *empty]."""
    present = [part.reshape(tuple(shape)) for part in parts if part is not None]
    if not present:
        return np.empty((len(parts), *empty), np.float32)
    if len(present) < len(parts):
        raise ValueError("some layers have a bias or norm that others lack")
    table: NDArray[np.float32] = torch.stack(present).numpy()
    return table


@lru_cache(128)
def _all(count: int) -> NDArray[np.int64]:
    return np.arange(count)


@lru_cache(128)
def _sequences_and_lines(batch: int, wide: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sequence of each row, and its index there, if the rows of all sequences are concatenated."""
    indices = np.arange(batch * wide)
    return indices // wide, indices % wide
