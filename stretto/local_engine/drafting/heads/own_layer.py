"""Layers for multi-token prediction of models that transformers can read them for: with experts, latent attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers.modeling_layers
from torch import Tensor

from stretto.local_engine.drafting.heads.decoder import Part
from stretto.local_engine.drafting.heads.recurrent import RecurrentReader
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.layer_states import LAST
from stretto.local_engine.model.forward.transformers_forward import CacheAdapter
from stretto.values.errors import SettingsError

__all__ = ["OwnLayer", "knows_its_own"]


def knows_its_own(model: Any) -> bool:
    """Whether transformers reads the layers for multi-token prediction of this model's kind."""
    return hasattr(transformers.modeling_layers, "MtpModel") and _count(model) > 0


def _count(model: Any) -> int:
    """How many such layers its configuration tells of."""
    return int(getattr(model.config.get_text_config(decoder=True), "num_mtp_layers", None) or 0)


class OwnLayer:
    """The first such layer, run by transformers' own code over our cache: DeepSeek V3, GLM-4 MoE and others.

    What it makes of a row stands in for the model's state behind a drafted token, as in `Mtp`.

    Args:
        model: of transformers.
        where: its folder.
        target: the model, as its heads see it.

    Raises `SettingsError` where transformers cannot read the layer.
    """

    kind = "mtp"
    layers = (LAST,)
    words: Tensor | None = None
    foresees: int | None = None

    def __init__(self, model: Any, where: str, target: Target) -> None:
        try:
            model.config.name_or_path = (
                where  # transformers looks for the layer there, and knows published numbers only
            )
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
        """See `Recurrent`. transformers' code runs one sequence after the other."""
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
