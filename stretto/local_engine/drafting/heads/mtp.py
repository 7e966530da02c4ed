"""Layers for multi-token prediction, which models are trained and published with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import transformers.modeling_layers
from torch import Tensor

from stretto.local_engine.drafting.heads.decoder import Decoder, Part, Shape, Weights
from stretto.local_engine.drafting.heads.recurrent import RecurrentReader
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.products import product
from stretto.local_engine.model.forward.rows import LAST
from stretto.local_engine.model.forward.transformers_forward import CacheAdapter
from stretto.values.errors import SettingsError


class _Names(NamedTuple):
    """Names of the weights of a published layer.

    Attributes:
        joined: the product that makes one vector of two.
        token_norm: norm of the input vector.
        state_norm: norm of the state.
        layer: prefix of the layer.
        norm: norm after the layer.
        state_first: whether the state comes before the input vector.
    """

    joined: str
    token_norm: str
    state_norm: str
    layer: str
    norm: str
    state_first: bool = False


def names_of(tensors: Mapping[str, Any], layers: int) -> _Names | None:
    """Return the names of the weights of the first such layer; ``None`` if there is none.

    ``layers``: number of the model's layers, after which DeepSeek and GLM number this one.
    """
    extra_layer = f"layers.{layers}."
    known = (
        _Names("mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.layers.0.", "mtp.norm"),
        _Names(
            "mtp_layers.0.input_proj",
            "mtp_layers.0.token_layernorm",
            "mtp_layers.0.hidden_layernorm",
            "mtp_layers.0.",
            "mtp_layers.0.final_layernorm",
        ),
        _Names(
            f"{extra_layer}eh_proj",
            f"{extra_layer}enorm",
            f"{extra_layer}hnorm",
            extra_layer,
            f"{extra_layer}shared_head.norm",
        ),
    )
    return next((names for names in known if f"{names.joined}.weight" in tensors), None)


class Mtp:
    """A layer that reads the model's last state and the next token's input vector: DeepSeek-AI, arXiv 2412.19437.

    Its output for a row replaces the model's state of a drafted token, so one layer can look as far ahead as it pays.
    Further such layers are ignored. Only layers of the Llama family are supported.

    Args:
        weights: weights under their names in the model's folder, or those of speculators.
        config: configuration of the model, or that of the layer from speculators.
        target: the model.
    """

    kind = "mtp"
    layers = (LAST,)
    words: Tensor | None = None
    foresees: int | None = None

    def __init__(self, weights: Weights, config: Mapping[str, Any], target: Target) -> None:
        names = names_of(weights.tensors, target.layers)
        if names is None:
            raise SettingsError(f"{weights.where} holds no layer for multi-token prediction of {target.name}.")
        if "mimo" in str(config.get("model_type", "")):
            names = names._replace(state_first=True)
        shape = Shape.of(config, weights.where)
        hidden = shape.hidden
        if hidden != target.hidden:
            raise SettingsError(
                f"The head in {weights.where} does not fit {target.name}: its states have {hidden} numbers, and those "
                f"of the model {target.hidden}."
            )
        self._state_first = names.state_first
        self._joined = weights.matrix(f"{names.joined}.weight", hidden, 2 * hidden)
        self._token_norm = weights.norm(names.token_norm, hidden, shape.epsilon)
        self._state_norm = weights.norm(names.state_norm, hidden, shape.epsilon)
        self._decoder = Decoder(weights, [names.layer], shape)
        self._norm = weights.norm(names.norm, hidden, shape.epsilon)
        self._target, self._dtype = target, weights.dtype

    def reader(self) -> RecurrentReader:
        return RecurrentReader(self, self._target.device)

    def enter(self, states: Tensor) -> Tensor:
        return states.to(self._dtype)

    def run(self, tokens: Tensor, before: Tensor, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
        both = [self._token_norm(self._target.embed(tokens).to(self._dtype)), self._state_norm(before)]
        if self._state_first:
            both.reverse()
        final = self._norm(self._decoder(product(torch.cat(both, -1), self._joined), parts))
        return final, final

    def logits(self, final: Tensor) -> Tensor:
        return self._target.read_out(final)


def knows_its_own(model: Any) -> bool:
    """Return whether transformers supports this model's layers for multi-token prediction."""
    return hasattr(transformers.modeling_layers, "MtpModel") and _count(model) > 0


def _count(model: Any) -> int:
    """Return the number of such layers in its configuration."""
    return int(getattr(model.config.get_text_config(decoder=True), "num_mtp_layers", None) or 0)


class OwnLayer:
    """The first such layer, run by transformers' code with our cache: DeepSeek V3, GLM-4 MoE and others.

    Its output for a row replaces the model's state of a drafted token, as in `Mtp`.

    Args:
        model: model of transformers.
        where: its folder.
        target: the model, as its heads see it.

    Raises `SettingsError` if transformers cannot read the layer.
    """

    kind = "mtp"
    layers = (LAST,)
    words: Tensor | None = None
    foresees: int | None = None

    def __init__(self, model: Any, where: str, target: Target) -> None:
        try:
            # transformers looks for the layer there, and knows published numbers only.
            model.config.name_or_path = where
            numbered = [rf"(^|\.)layers\.{target.layers + extra}\." for extra in range(_count(model))]
            model._keys_to_ignore_on_load_unexpected = [*(model._keys_to_ignore_on_load_unexpected or ()), *numbered]
            read: Any = transformers.modeling_layers.MtpModel.from_pretrained(model, device_map={"": model.device})
        except Exception as error:
            raise SettingsError(
                f"The layer for multi-token prediction in {where!r} cannot be read by transformers "
                f"({type(error).__name__}: {error})."
            ) from error
        self._layer, self._target = read.eval().requires_grad_(False), target

    def reader(self) -> RecurrentReader:
        return RecurrentReader(self, self._target.device)

    def enter(self, states: Tensor) -> Tensor:
        return states

    def run(self, tokens: Tensor, before: Tensor, parts: Sequence[Part]) -> tuple[Tensor, Tensor]:
        """See `Recurrent`. transformers' code runs one sequence at a time."""
        counts = [rows.tokens.shape[1] for rows, _ in parts]
        pieces = zip(torch.split(tokens, counts, 1), torch.split(before, counts, 1), parts, strict=True)
        final = torch.cat([self._run(*piece) for piece in pieces], 1)
        return final, final

    def _run(self, tokens: Tensor, before: Tensor, part: Part) -> Tensor:
        rows, cache = part
        cache.begin(rows)
        mtp = self._layer
        vectors: Tensor = mtp.embed_tokens(tokens)
        turned = None if mtp.rotary_emb is None else mtp.rotary_emb(vectors, position_ids=rows.positions)
        final: Tensor = mtp.layers[0](
            vectors,
            before.to(vectors.dtype),
            position_embeddings=turned,
            attention_mask=rows.mask(vectors.dtype),
            position_ids=rows.positions,
            past_key_values=CacheAdapter(cache, rows),
        )
        if mtp.use_shared_post_norm:
            final = mtp.shared_post_norm(final)
        return final

    def logits(self, final: Tensor) -> Tensor:
        logits: Tensor = self._layer._project_to_logits(final)
        return logits
