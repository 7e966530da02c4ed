"""The attention of transformers' own modelling code, on a GPU: see ``gpu_attention.py``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from stretto.local_engine.model.forward.gpu_attention import HALF, attend

__all__ = ["attend_in"]

_NAME = "stretto_sdpa"


def attend_in(model: Any) -> None:
    """Let a model of transformers use our `attend`, where it uses torch's attention in half precision on a GPU.

    Older modelling code, which does not look up the implementation by name, is left alone.
    """
    named = model.config._attn_implementation == "sdpa" and getattr(model, "_supports_attention_backend", False)
    if model.device.type != "cuda" or model.dtype not in HALF or not named:
        return
    AttentionInterface.register(_NAME, _redirected)
    AttentionMaskInterface.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model.set_attn_implementation(_NAME)


class _Redirecting(TorchFunctionMode):
    """Replaces torch's attention by ours, in this thread only."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        return _attend(*args, **given) if function is scaled_dot_product_attention else function(*args, **given)


def _redirected(module: torch.nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, None]:
    with _Redirecting():
        found: tuple[Tensor, None] = sdpa_attention_forward(module, *args, **kwargs)
    return found


def _attend(  # noqa: PLR0917 - as torch has it
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - nothing is trained here
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: ARG001 - heads say it themselves
) -> Tensor:
    """The arguments of torch's `scaled_dot_product_attention`."""
    if key.shape[1] != query.shape[1]:
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
    return attend(query, key, value, attn_mask, causal=is_causal, scale=scale)
