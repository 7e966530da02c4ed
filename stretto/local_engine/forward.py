"""One forward of the model over some rows: the protocol, and transformers' own modelling code behind it."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.transformers_attention import attend_in

__all__ = ["Forward", "TransformersForward", "disagreement"]


class Forward(Protocol):
    """Scores rows and writes their keys and values."""

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run the model over ``rows``.

        Args:
            rows: tokens and positions # [batch, rows]
            cache: what the rows see before themselves; they are written to it.
            keep: which rows' logits are wanted, the same of each sequence # [kept]

        Returns:
            logits # [batch, kept, vocabulary]
        """
        ...


class TransformersForward:
    """Any decoder-only model of transformers that honours a four-dimensional mask, with our cache inside.

    Such a mask is used as it stands, sliding windows included, so this class makes one for each kind of layer.
    Raises ValueError for models whose layers keep another state than keys and values.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        attend_in(model)
        config = model.config.get_text_config(decoder=True)
        self._kinds = tuple(sorted(set(getattr(config, "layer_types", None) or ())))
        others = [kind for kind in self._kinds if kind not in {"full_attention", "sliding_attention"}]
        if others:
            raise ValueError(f"layers of the kind {others[0]!r} keep another state than keys and values")
        self._window: int | None = getattr(config, "sliding_window", None)
        if self._kinds == ("full_attention",):
            self._window = None
        takes = inspect.signature(model.forward).parameters
        self._takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values())
        self._takes = frozenset(takes)

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `Forward`."""
        cache.begin(rows)
        dtype = self._model.dtype
        mask: Tensor | dict[str, Tensor] = rows.mask(dtype, self._window)
        if len(self._kinds) > 1:
            mask = {"full_attention": rows.mask(dtype), "sliding_attention": rows.mask(dtype, self._window)}
        options = {"position_ids": rows.positions, "logits_to_keep": keep}
        if not self._takes_any:
            options = {name: value for name, value in options.items() if name in self._takes}
        logits: Tensor = self._model(
            input_ids=rows.tokens, attention_mask=mask, past_key_values=_Adapter(cache, rows), use_cache=True, **options
        ).logits
        return logits if logits.shape[1] == len(keep) else logits[:, keep]


class _Adapter(Cache):
    """Our cache in the form in which transformers' attention layers know one."""

    def __init__(self, cache: KeyValueCache, rows: Rows) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._before = rows.extent - rows.tokens.shape[1]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        keys, values = self._cache.write(layer_idx, key_states.transpose(1, 2), value_states.transpose(1, 2))
        return keys.transpose(1, 2), values.transpose(1, 2)  # [batch, key_value_heads, extent, head_dim]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 - all layers hold the same tokens
        return self._before


def disagreement(model: Any, forward: Forward, tokens: int = 20) -> float:
    """How far ``forward``, two sequences in three parts, is from the model reading them at once without a cache.

    A prompt, one row, and again that row with another one as its draft.

    The largest difference of the logits, relative to their standard deviation: rounding only, unless the
    model's attention is something else than the mask and the cache say (positions as a bias, a recurrent state).
    """
    vocabulary, place = model.get_input_embeddings().weight.shape[0], torch.arange(tokens, device=model.device)
    ids = (torch.arange(2 * tokens, device=model.device).view(2, tokens) * 7 + 11) % vocabulary
    expected = model(input_ids=ids, use_cache=False).logits[:, -3:].float()
    positions, cache, known = place.expand(2, tokens), KeyValueCache(2), tokens - 2
    read = forward(Rows(ids[:, :known], positions[:, :known], known), cache, place[known - 1 : known])
    plain = forward(Rows(ids[:, known:-1], positions[:, known:-1], tokens - 1), cache, place[:1])
    chain = torch.ones(2, 2, 2, dtype=torch.bool, device=ids.device).tril()
    last = positions[:, known:]
    drafted = forward(Rows(ids[:, known:], last, tokens, slots=last, ancestry=chain), cache, place[:2])
    found = torch.cat((read, plain, drafted), 1).float()  # [2, 4, vocabulary]
    gaps = found - expected[:, [0, 1, 1, 2]]
    return float(gaps.abs().max() / expected.std().clamp_min(1e-6))
