"""Which models the lean forward runs, and how they differ from Llama.

Gemma 3 multiplies its input vectors by the square root of their size, has other norms, GELU in place of SiLU, norms of
what a layer adds to the residual stream, and other rotations in layers with a sliding window (Gemma Team,
arXiv:2503.19786). Phi-3 stores joined products that are separate in others (arXiv:2404.14219).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_JOINED = "Phi3ForCausalLM"
_LLAMA = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", _JOINED})
_GEMMA = "Gemma3ForCausalLM"
_PRODUCTS = ("_proj", "lm_head")
_FIXED_ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
_KINDS = frozenset({"full_attention", "sliding_attention"})


def is_llama_like(model: Any) -> bool:
    """Return whether `stretto.local_engine.model.forward.llama.LlamaForward` can run this transformers model."""
    kind = type(model)
    if not kind.__module__.startswith("transformers.models.") or kind.__name__ not in _LLAMA | {_GEMMA}:
        return False
    config, types = model.config, getattr(model.model.rotary_emb, "rope_type", None)
    return (
        (_is_gemma(model) if kind.__name__ == _GEMMA else config.hidden_act == "silu" and _turns_whole_heads(model))
        and not getattr(config, "mlp_bias", False)
        and set(types.values() if isinstance(types, dict) else [types]) <= _FIXED_ROTATIONS
        and set(getattr(config, "layer_types", None) or ()) <= _KINDS
        and _is_dense(model)
    )


def _is_gemma(model: Any) -> bool:
    """Return whether a Gemma 3 has only features of its published models."""
    config = model.config
    return (
        config.hidden_activation == "gelu_pytorch_tanh"
        and config.attn_logit_softcapping is None
        and config.final_logit_softcapping is None
        and not config.use_bidirectional_attention
        and not config.attention_bias
    )


def _turns_whole_heads(model: Any) -> bool:
    """Return whether positions rotate all dimensions of a head (Phi-4-mini rotates three quarters)."""
    return bool(2 * len(model.model.rotary_emb.inv_freq) == model.model.layers[0].self_attn.head_dim)


def _is_dense(model: Any) -> bool:
    """Return whether all products have plain weights: neither quantised, nor wrapped by adapters."""
    products = [module for name, module in model.named_modules() if name.endswith(_PRODUCTS)]
    return bool(products) and all(
        type(module) is torch.nn.Linear
        and type(getattr(module, "weight", None)) is torch.nn.Parameter  # compressed-tensors has it under other names
        and type(module.weight.data) is Tensor
        and module.weight.is_floating_point()
        and module.weight.dtype == model.dtype
        for module in products
    )


@dataclass(frozen=True, slots=True)
class Family:
    """Differences between the models that the lean forward runs.

    Attributes:
        rotations: frequencies in radians per position # [head_dim / 2], and the amplitude of each rotary embedding.
        turns: index of the rotary embedding of each layer.
        windows: of each layer, in tokens; ``None`` for all tokens.
        scale: factor of the input vectors.
        gates_by_gelu: whether the feed-forward uses GELU, in its tanh form, instead of SiLU.
        is_joined: whether the model stores joined products that are separate in others.
    """

    rotations: tuple[tuple[Tensor, float], ...]
    turns: tuple[int, ...]
    windows: tuple[int | None, ...]
    scale: float = 1.0
    gates_by_gelu: bool = False
    is_joined: bool = False

    @property
    def frequencies(self) -> Tensor:
        """Frequencies of the first rotation # [head_dim / 2]."""
        return self.rotations[0][0]

    @property
    def is_llama(self) -> bool:
        """Whether independent code for the layers of a Llama model runs this one correctly."""
        return len(self.rotations) == 1 and self.scale == 1 and not self.gates_by_gelu


def family_of(model: Any) -> Family:
    """Return how a transformers model for which `is_llama_like` is true differs from others."""
    config, rotary = model.config, model.model.rotary_emb
    count, window = len(model.model.layers), getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * count
    windows = tuple(window if kind == "sliding_attention" else None for kind in kinds)
    if (name := type(model).__name__) != _GEMMA:
        one = (rotary.inv_freq.float(), rotary.attention_scaling)
        return Family((one,), (0,) * count, windows, is_joined=name == _JOINED)
    used = sorted(set(kinds))
    rotations = tuple(
        (getattr(rotary, f"{kind}_inv_freq").float(), getattr(rotary, f"{kind}_attention_scaling")) for kind in used
    )
    scale = float(model.model.embed_tokens.scalar_embed_scale)
    return Family(rotations, tuple(map(used.index, kinds)), windows, scale, gates_by_gelu=True)


def norm_weight(norm: Any) -> Tensor:
    """Return the factor of a norm. Gemma stores its difference from 1, which half precision would round away."""
    weight: Tensor = norm.weight.data
    return 1 + weight.float() if type(norm).__name__.startswith("Gemma") else weight


def query_norm_scale(attention: Any) -> float:
    """Return the factor of queries with which scores are divided by the square root of the head size."""
    return float(attention.scaling * attention.head_dim**0.5)
