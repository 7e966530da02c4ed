"""EAGLE-3 heads: one layer that reads the states of three of the model's layers and drafts token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.local_engine.drafting.heads.decoder import Decoder, Part, Shape, Weights, whole_number
from stretto.local_engine.drafting.heads.head_words import embedding_of, last_product, layers_named, words_of
from stretto.local_engine.drafting.heads.recurrent import RecurrentReader
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.kernels.compiling.compiled_parts import Part as CompiledPart
from stretto.local_engine.kernels.compiling.compiler import are_ready
from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.sizes import BLOCKS
from stretto.local_engine.model.forward.llama_layer import Norm
from stretto.local_engine.model.forward.products import product
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.drafting.heads.compiled_layer import CompiledLayer

_NAMED = ("eagle_aux_hidden_state_layer_ids", "target_layer_ids")
_MOST_LAYERS = 1000


class Eagle3:
    """EAGLE-3 (Li et al., arXiv 2503.01840), with the norms of EAGLE 3.1 (arXiv 2605.09992).

    The states of the named layers become one vector, ``g = fc(l, m, h)``. A row reads g and the input vector of the
    next token: the attention of its first layer reads both, and g alone is the residual stream. A drafted token has no
    state of the model, so the output of the previous row takes its place.

    Args:
        weights: weights under the names of the published heads, with ``layers.0.`` for ``midlayer.``.
        config: ``config.json``, with the sizes of the layers at the top level.
        target: the model.
    """

    kind = "eagle3"
    foresees: int | None = None

    def __init__(self, weights: Weights, config: Mapping[str, Any], target: Target) -> None:
        shape = Shape.of(config, weights.where)
        hidden = shape.hidden
        fused = weights.get("fc.weight", hidden, -1)
        if fused.shape[1] % target.hidden:
            raise SettingsError(
                f"The head in {weights.where} does not fit {target.name}: it reads states of {fused.shape[1]} numbers, "
                f"and those of the model have {target.hidden}."
            )
        count, layers = fused.shape[1] // target.hidden, target.layers
        field = next((name for name in _NAMED if config.get(name)), _NAMED[0])
        named = config.get(field) or (2, layers // 2, layers - 3)
        self.layers = layers_named(named, count, target, weights.where, field=field)
        self.words = words_of(weights, target)
        self._fuse = weights.converted(fused)
        self._fuse_bias = weights.find("fc.bias", hidden)
        self._one_norm = (
            weights.norm("input_norm", count * target.hidden, shape.epsilon) if _on(config, "norm_before_fc") else None
        )
        self._norms = None
        if _on(config, "fc_norm"):
            name = "fc_norms" if "fc_norms.0.weight" in weights else "fc_norm"
            self._norms = [weights.norm(f"{name}.{number}", target.hidden, shape.epsilon) for number in range(count)]
        self._embed = embedding_of(weights, target, hidden)
        self._read_norm = weights.norm("layers.0.hidden_norm", hidden, shape.epsilon)
        count_of_layers = whole_number(config, "num_hidden_layers", weights.where, usual=1, below=_MOST_LAYERS)
        prefixes = [f"layers.{number}." for number in range(count_of_layers)]
        self._decoder = Decoder(weights, prefixes, shape, reads=2 * hidden)
        self._norm = weights.norm("norm", hidden, shape.epsilon)
        self._read_out = last_product(weights, hidden, target, with_words=self.words is not None)
        self._residual_is_normed, self._gives_normed = _on(config, "norm_before_residual"), _on(config, "norm_output")
        self._target, self._dtype = target, weights.dtype
        own = "embed_tokens.weight" in weights
        self._compiled = (
            None
            if own
            else _compiled(
                self._decoder, target, (self._read_norm, self._norm), residual_is_normed=self._residual_is_normed
            )
        )

    def reader(self) -> RecurrentReader:
        return RecurrentReader(self, self._target.device)

    def enter(self, states: Tensor) -> Tensor:
        states = states.to(self._dtype)
        if self._one_norm is not None:
            states = self._one_norm(states)
        if self._norms is not None:
            parts = states.chunk(len(self._norms), -1)
            states = torch.cat([norm(part.contiguous()) for norm, part in zip(self._norms, parts, strict=True)], -1)
        return product(states, self._fuse, self._fuse_bias)

    def run(self, tokens: Tensor, before: Tensor, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
        if self._compiled is not None and all(rows.ancestry is None for rows, _ in parts):
            state, final = self._compiled(tokens, before, parts)
            return (final if self._gives_normed else state), final
        vectors = self._decoder.first_norm(self._embed(tokens).to(self._dtype))
        normed = self._read_norm(before)
        residual = normed if self._residual_is_normed else before
        state = self._decoder(residual, parts, read=torch.cat((vectors, normed), -1))
        final = self._norm(state)
        return (final if self._gives_normed else state), final

    def logits(self, final: Tensor) -> Tensor:
        if self._read_out is None:
            return self._target.read_out(final)
        return product(final, self._read_out)


def _compiled(
    decoder: Decoder, target: Target, norms: tuple[Norm, Norm], *, residual_is_normed: bool
) -> CompiledLayer | None:
    """Return compiled code for the layer, if it is ready and can run it."""
    if target.embedding is None:
        return None
    from stretto.local_engine.drafting.heads.compiled_layer import CompiledLayer  # noqa: PLC0415 - it imports numba

    if not (CompiledLayer.takes(decoder) and are_ready([layer_part(target.embedding)])):
        return None
    return CompiledLayer(decoder, target.embedding, norms, residual_is_normed=residual_is_normed, owner=target.owner)


def _on(config: Mapping[str, Any], flag: str) -> bool:
    return bool(config.get(flag))


def are_in_blocks(embedding: Embedding) -> bool:
    """Return whether the model's input vectors are quantised."""
    return embedding.layout == BLOCKS


def layer_part(embedding: Embedding) -> CompiledPart:
    """Return the part to compile, which depends on the format of the model's input vectors."""
    kind = "blocks" if are_in_blocks(embedding) else "numbers"
    return CompiledPart(f"head-{kind}", "stretto.local_engine.drafting.heads.trial:layer", (kind,))
