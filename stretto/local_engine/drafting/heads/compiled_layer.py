"""Torch interface of the compiled layer of an EAGLE-3 head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stretto.local_engine.drafting.heads.compiled.eagle import ChainRows, EagleScratch, EagleWeights, run
from stretto.local_engine.drafting.heads.decoder import Decoder, Part
from stretto.local_engine.drafting.heads.eagle3 import are_in_blocks
from stretto.local_engine.kernels.blocks import LIKE
from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.kernels.sizes import PANEL, STOPPED
from stretto.local_engine.kernels.thread_team import share
from stretto.local_engine.model.forward.llama_layer import Norm

_NUMBERS = np.empty(0, np.float32)


class CompiledLayer:
    """Runs a layer whose weights are in blocks. Reading them is most of the work, so nothing runs in between.

    Args:
        decoder: decoder with one layer.
        embedding: the model's input vectors.
        norms: norm of the previous row, and the last norm.
        residual_is_normed: see `EagleWeights`.
        owner: object that owns the memory of the input vectors.
    """

    def __init__(
        self,
        decoder: Decoder,
        embedding: Embedding,
        norms: tuple[Norm, Norm],
        *,
        residual_is_normed: bool,
        owner: object,
    ) -> None:
        shape, layer = decoder.shape, decoder.layers[0]
        self._kept = layer, owner  # compiled code only knows addresses
        self._stored, self._width = shape.stored, shape.width
        turned, every = shape.heads + shape.stored, shape.heads + 2 * shape.stored
        products = list(layer.products.values())
        bias, norm = layer.query_key_value_bias, layer.query_key_norm
        self._weights = EagleWeights(
            embedding=embedding,
            norms=torch.stack(
                [each.weight for each in (layer.norm, norms[0], layer.feed_forward_norm, norms[1])]
            ).numpy(),
            head_norms=np.empty((turned, 0), np.float32) if norm is None else norm.contiguous().numpy(),
            bias=np.empty((0, shape.width), np.float32) if bias is None else bias.view(every, -1).numpy(),
            frequencies=shape.frequencies.numpy(),
            amplitude=np.float32(shape.amplitude),
            epsilon=np.float32(shape.epsilon),
            num_kv_heads=shape.stored,
            products=np.array([each.address for each in products if isinstance(each, Panels)], np.int64),
            residual_is_normed=residual_is_normed,
        )
        self._like = LIKE if are_in_blocks(embedding) else _NUMBERS
        hidden = shape.hidden
        self._room = (
            (hidden,),
            (2 * hidden,),
            (hidden,),
            (every, shape.width),
            (shape.heads, shape.width),
            (2 * shape.inner,),
            (shape.inner,),
            (hidden,),
        )
        self._size = sum(each.size for each in products if isinstance(each, Panels))

    @staticmethod
    def takes(decoder: Decoder) -> bool:
        """Return whether it can run this decoder: it has one layer, in blocks, whose sizes fill all panels."""
        layer, shape = decoder.layers[0], decoder.shape
        in_panels = all(isinstance(each, Panels) and each.outer % PANEL == 0 for each in layer.products.values())
        return len(decoder.layers) == 1 and in_panels and shape.width % PANEL == 0 and layer.output_bias is None

    def __call__(self, tokens: Tensor, before: Tensor, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
        """Run it over chains; see `Recurrent.run` for the arguments.

        Returns:
            the residual stream, and the normalised final states # [1, rows, hidden], twice
        """
        begin, sequences = 0, []
        for rows, cache in parts:
            end = begin + rows.tokens.shape[1]
            keys, values = cache.addresses(rows.kv_len, 1, (self._stored, self._width))
            sequences.append((begin, end, keys[0], values[0], cache.capacity))
            begin = end
        positions = np.concatenate([rows.positions.numpy() for rows, _ in parts], 1)
        given = ChainRows(
            np.ascontiguousarray(tokens[0].numpy()),
            np.ascontiguousarray(before[0].numpy()),
            np.array(sequences, np.int64),
            np.ascontiguousarray(positions),
        )
        buffers = [np.empty((begin, *shape), np.float32) for shape in self._room]
        scratch = EagleScratch._make((*buffers, np.zeros(1, np.int64)))
        like, weights = self._like, self._weights
        share(
            begin * self._size,
            lambda part, parts: run(LIKE, like, weights, given, scratch, part, parts),
            lambda: scratch.counter.fill(STOPPED),
        )
        return torch.from_numpy(scratch.state)[None], torch.from_numpy(scratch.final)[None]
