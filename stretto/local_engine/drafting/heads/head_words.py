"""Vocabulary, input vectors and named layers of a head, checked against its model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.drafting.heads.decoder import Weights
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.products import Weight
from stretto.values.errors import SettingsError


def words_of(weights: Weights, target: Target) -> Tensor | None:
    """Return the model's token id for each of the head's; ``None`` if they are the same # [words].

    ``d2t`` has the offset of each id. Raises `SettingsError` if the vocabularies do not fit.
    """
    last = weights.tensors.get("lm_head.weight")
    offsets = weights.tensors.get("d2t")
    if offsets is None:
        if last is not None and len(last) < target.vocabulary:
            raise SettingsError(
                f"The head in {weights.where} does not fit {target.name}: it knows {len(last)} tokens and the model "
                f"{target.vocabulary}, and no weight d2t says which."
            )
        return None
    words = torch.arange(len(offsets)) + offsets.long()
    if last is not None and len(last) != len(words):
        raise SettingsError(
            f"{weights.where} is no whole head: lm_head.weight has {len(last)} rows and d2t {len(words)}."
        )
    if len(words) and not 0 <= int(words.min()) <= int(words.max()) < target.vocabulary:
        raise SettingsError(
            f"The head in {weights.where} does not fit {target.name}: it drafts the token {int(words.max())}, and "
            f"those of the model are below {target.vocabulary}."
        )
    return words.to(target.device)


def embedding_of(weights: Weights, target: Target, hidden: int) -> Callable[[Tensor], Tensor]:
    """Return what looks up input vectors: the head's, or the model's if it has none. Raises `SettingsError`."""
    own = weights.find("embed_tokens.weight", -1, hidden)
    if own is not None:
        if len(own) < target.vocabulary:
            raise SettingsError(
                f"The head in {weights.where} does not fit {target.name}: it has vectors for {len(own)} tokens, and "
                f"the model has {target.vocabulary}."
            )
        return lambda tokens: embedding(tokens, own)
    if hidden != target.hidden:
        raise SettingsError(
            f"The head in {weights.where} does not fit {target.name}: its vectors have {hidden} numbers, and those of "
            f"the model {target.hidden}."
        )
    return target.embed


def last_product(weights: Weights, hidden: int, target: Target, *, with_words: bool) -> Weight | None:
    """Return the weight of the output projection; ``None`` if it is the model's. Raises `SettingsError`."""
    own = weights.find("lm_head.weight", -1, hidden)
    if own is None and (with_words or hidden != target.hidden):
        raise SettingsError(f"{weights.where} is no whole head: the weight lm_head.weight is missing.")
    return None if own is None else weights.converted(own)


def layers_named(
    named: Any, count: int, target: Target, where: str, *, field: str, shifted: bool = False
) -> tuple[int, ...]:
    """Return the first ``count`` layers that a head names in a field; ``shifted`` adds 1 to each.

    Raises `SettingsError` if they are not integers, or the model has too few layers.
    """
    if not isinstance(named, list | tuple) or not all(type(layer) is int for layer in named):
        raise SettingsError(
            f"The head in {where} cannot be run: {field} is {safe_repr(named)} in its config.json, and a list of whole "
            "numbers is needed."
        )
    layers = tuple(layer + shifted for layer in named)[:count]
    if len(layers) != count or not all(0 <= layer < target.layers for layer in layers):
        raise SettingsError(
            f"The head in {where} does not fit {target.name}: it reads {count} layers of the numbers "
            f"{', '.join(map(str, layers))}, and the model has {target.layers}."
        )
    return layers
