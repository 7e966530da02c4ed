"""Which models the lean forward runs, and in what they differ from Llama.

Gemma 3 differs from Llama in its input vectors, which are multiplied with the root of their size, in its norms, in a
GELU in place of the SiLU, in norms of what a layer adds to the residual stream, and in the rotations of the layers that
see a window (Gemma Team, arXiv:2503.19786). Phi-3 holds products joined that others hold apart (arXiv:2404.14219).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Family", "family_of", "is_llama_like", "norm_weight", "query_norm_scale"]

_JOINED = "Phi3ForCausalLM"
_LLAMA = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", _JOINED})
_GEMMA = "Gemma3ForCausalLM"
_PRODUCTS = ("_proj", "lm_head")
_FIXED_ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
_KINDS = frozenset({"full_attention", "sliding_attention"})


def is_llama_like(model: Any) -> bool:
    """Whether `stretto.local_engine.model.forward.llama.LlamaForward` can run this transformers model."""
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
    """Whether a Gemma 3 has nothing that its published forms do not have."""
    config = model.config
    return (
        config.hidden_activation == "gelu_pytorch_tanh"
        and config.attn_logit_softcapping is None
        and config.final_logit_softcapping is None
        and not config.use_bidirectional_attention
        and not config.attention_bias
    )


def _turns_whole_heads(model: Any) -> bool:
    """Whether positions turn all dimensions of a head (Phi-4-mini turns three quarters)."""
    return bool(2 * len(model.model.rotary_emb.inv_freq) == model.model.layers[0].self_attn.head_dim)


def _is_dense(model: Any) -> bool:
    """Whether all products are of plain weights: no quantised ones, no adapters around them."""
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
    """In what a model differs from others that the lean forward runs.

    Attributes:
        rotations: frequencies in radians per position # [head_dim / 2], and the amplitude of each rotary embedding.
        turns: which of them each layer has.
        windows: of each layer, in tokens; ``None`` for all tokens.
        scale: input vectors are multiplied with it.
        gates_by_gelu: whether the feed-forward has GELU, by its form with tanh, in place of SiLU.
        is_joined: whether the model holds products joined that others hold apart.
    """

    rotations: tuple[tuple[Tensor, float], ...]
    turns: tuple[int, ...]
    windows: tuple[int | None, ...]
    scale: float = 1.0
    gates_by_gelu: bool = False
    is_joined: bool = False

    @property
    def frequencies(self) -> Tensor:
        """Of the first rotation # [head_dim / 2]."""
        return self.rotations[0][0]

    @property
    def is_llama(self) -> bool:
        """Whether code that runs the layers of a Llama model by itself gets this one right."""
        return len(self.rotations) == 1 and self.scale == 1 and not self.gates_by_gelu


def family_of(model: Any) -> Family:
    """In what a transformers model for which `is_llama_like` holds differs from others."""
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
    """What a norm multiplies with. Gemma holds how far that is from 1, which half precision would round away."""
    weight: Tensor = norm.weight.data
    return 1 + weight.float() if type(norm).__name__.startswith("Gemma") else weight


def query_norm_scale(attention: Any) -> float:
    """What queries are to be multiplied with, so that scores are divided by the root of the size of a head."""
    return float(attention.scaling * attention.head_dim**0.5)
