"""The weights of a layer of the Llama family; weights with the same inputs are joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, rms_norm

from stretto.local_engine.model.forward.llama_family import norm_weight, query_norm_scale
from stretto.local_engine.model.forward.products import Layout, Weight, packed, unpacked


class Norm:
    """The root-mean-square norm over the last axis, in as few torch operations as possible.

    On a CPU, rms_norm is a dozen operations and layer_norm one. The layer norm of ``(x, -x)``, whose mean is 0, equals
    the root-mean-square norm.
    """

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self.weight, self._epsilon = weight, epsilon  # [hidden]
        self._twice = torch.cat((weight, weight)) if weight.device.type == "cpu" else None

    def as_type(self, dtype: torch.dtype) -> Norm:
        """Return a copy in another type."""
        return Norm(self.weight.to(dtype), self._epsilon)

    def __call__(self, state: Tensor) -> Tensor:
        """Normalise states # [..., hidden]."""
        if self.weight.dtype != state.dtype:  # Gemma's, see `norm_weight`
            return self(state.to(self.weight.dtype)).to(state.dtype)
        if self._twice is None:
            return rms_norm(state, self.weight.shape, self.weight, self._epsilon)
        both = layer_norm(torch.cat((state, -state), -1), self._twice.shape, self._twice, None, self._epsilon)
        return both[..., : len(self.weight)].contiguous()  # a product of strided rows would round twice


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer."""

    norm: Norm
    query_key_value: Weight  # [(heads + 2 * num_kv_heads) * head_dim, hidden]
    query_key_value_bias: Tensor | None
    query_key_norm: Tensor | None  # [heads + num_kv_heads, head_dim]
    output: Weight  # [hidden, heads * head_dim]
    output_bias: Tensor | None
    feed_forward_norm: Norm
    gate_up: Weight  # [2 * intermediate, hidden]
    down: Weight  # [hidden, intermediate]
    window: int | None
    output_norm: Norm | None = None  # of the output of attention
    down_norm: Norm | None = None  # of the output of the feed-forward

    def as_type(self, dtype: torch.dtype) -> Layer:
        """Return a copy with everything but the products in another type."""
        return replace(
            self,
            norm=self.norm.as_type(dtype),
            query_key_value_bias=_as_type(self.query_key_value_bias, dtype),
            query_key_norm=_as_type(self.query_key_norm, dtype),
            output_bias=_as_type(self.output_bias, dtype),
            feed_forward_norm=self.feed_forward_norm.as_type(dtype),
            output_norm=None if self.output_norm is None else self.output_norm.as_type(dtype),
            down_norm=None if self.down_norm is None else self.down_norm.as_type(dtype),
        )

    @property
    def products(self) -> dict[str, Weight]:
        """The weights of the matrix products."""
        names = ("query_key_value", "output", "gate_up", "down")
        return {name: getattr(self, name) for name in names}

    @property
    def nbytes(self) -> int:
        """Bytes of the weights of the products, before they are packed."""
        return sum(weight.nbytes for weight in self.products.values() if isinstance(weight, Tensor))

    def packed(self, layout: Layout | None) -> Layer:
        """Return a copy laid out for the processor; see `stretto.local_engine.model.forward.products`."""
        return replace(self, **{name: packed(weight, layout) for name, weight in self.products.items()})  # type: ignore[arg-type]  # all of one type

    def unpacked(self, dtype: torch.dtype) -> Layer:
        """Return a copy as before packing."""
        return replace(self, **{name: unpacked(weight, dtype) for name, weight in self.products.items()})  # type: ignore[arg-type]  # as above


def take(layer: Any, window: int | None, heads: tuple[int, int], epsilon: float) -> Layer:
    """Take over a layer of a transformers model, whose weights become views of the result's.

    Args:
        layer: of the model.
        window: of its attention, in tokens.
        heads: query heads and key-value heads.
        epsilon: of the norms.
    """
    attention, products = layer.self_attn, multiplied(layer)
    joined = {module.weight for modules in products.values() if len(modules) > 1 for module in modules}
    own(parameter for parameter in layer.parameters() if parameter not in joined)
    norm = None
    if hasattr(attention, "q_norm"):
        norms = (norm_weight(attention.q_norm) * query_norm_scale(attention), norm_weight(attention.k_norm))
        norm = torch.cat([each.expand(count, -1) for each, count in zip(norms, heads, strict=True)])
    has_four = hasattr(layer, "pre_feedforward_layernorm")
    after = layer.pre_feedforward_layernorm if has_four else layer.post_attention_layernorm
    taken = Layer(
        norm=Norm(norm_weight(layer.input_layernorm), epsilon),
        query_key_value=_join("weight", *products["query_key_value"]),
        query_key_value_bias=_join("bias", *products["query_key_value"]),
        query_key_norm=norm,
        output=_join("weight", *products["output"]),
        output_bias=_join("bias", *products["output"]),
        feed_forward_norm=Norm(norm_weight(after), epsilon),
        gate_up=_join("weight", *products["gate_up"]),
        down=_join("weight", *products["down"]),
        window=window,
        output_norm=Norm(norm_weight(layer.post_attention_layernorm), epsilon) if has_four else None,
        down_norm=Norm(norm_weight(layer.post_feedforward_layernorm), epsilon) if has_four else None,
    )
    take_back(layer, taken)  # no product is stored twice
    return taken


def own(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Copy weights that are parts of something larger, such as a mapped file, which each part would keep in memory.

    A storage does not show that it is part of a file, only that torch did not allocate it.
    """
    for parameter in parameters:
        storage = parameter.data.untyped_storage()
        if storage.nbytes() > parameter.nbytes or not storage.resizable():
            parameter.data = parameter.data.clone()


def let_go(layer: Any) -> None:
    """Free the product weights of a transformers layer, which cannot run until `take_back`."""
    for modules in multiplied(layer).values():
        for module in modules:
            module.weight.data = module.weight.data.new_empty(0)


def take_back(layer: Any, taken: Layer) -> None:
    """Make the weights of a transformers layer views of unpacked ones that were taken from it."""
    for name, modules in multiplied(layer).items():
        whole = getattr(taken, name)
        for module, part in zip(modules, whole.split([module.out_features for module in modules]), strict=True):
            module.weight.data = part


def multiplied(layer: Any) -> dict[str, tuple[Any, ...]]:
    """Return the modules of a transformers layer whose weights are joined, by the names of `Layer.products`."""
    attention, feed_forward = layer.self_attn, layer.mlp
    first: tuple[Any, ...]
    third: tuple[Any, ...]
    if hasattr(attention, "qkv_proj"):  # Phi-3 stores them joined
        first, third = (attention.qkv_proj,), (feed_forward.gate_up_proj,)
    else:
        first = (attention.q_proj, attention.k_proj, attention.v_proj)
        third = (feed_forward.gate_proj, feed_forward.up_proj)
    return {
        "query_key_value": first,
        "output": (attention.o_proj,),
        "gate_up": third,
        "down": (feed_forward.down_proj,),
    }


def _as_type(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)


def _join(name: str, *modules: Any) -> Any:
    """Concatenate parameters; ``None`` if the modules have none of this name."""
    if getattr(modules[0], name) is None:
        return None
    parameters = [getattr(module, name).data for module in modules]
    if len(parameters) == 1:
        return parameters[0]
    if any(parameter.untyped_storage().nbytes() < parameter.nbytes for parameter in parameters):  # stored elsewhere
        return parameters[0].new_zeros(()).expand(sum(map(len, parameters)), parameters[0].shape[1])
    return torch.cat(parameters)
