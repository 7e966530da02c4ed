"""Unmerged low-rank adapters, so that requests with different adapters, or none, can share the weights of a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stretto.local_engine.model.adapters.lora import LoraAdapter, LoraDelta
from stretto.local_engine.model.adapters.lora_deltas import Places
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.products import Weight, unpacked
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.transformers_forward import TransformersForward


_JOINED = {"query_key_value": "self_attn.qkv_proj", "gate_up": "mlp.gate_up_proj"}
"""Modules of models that store these products joined (Phi-3), by the product's name."""


def attach_lora(model: LoadedModel, name: str, adapter: LoraAdapter) -> LlamaForward | None:
    """Attach an unmerged adapter to a model, for rows that name it; see `Rows.adapters`.

    Returns:
        the forward, if compiled code can run it.

    Raises `SettingsError` if it does not fit the model, or has to be merged.
    """
    from stretto.local_engine.model.forward.transformers_forward import TransformersForward  # noqa: PLC0415 - slow

    forward = getattr(model.forward, "plain", model.forward)  # recorded steps run without adapters
    own = dict(forward.model.named_parameters()) if isinstance(forward, TransformersForward) else {}
    for weight, whole in adapter.replaced.items():
        if weight in own and torch.equal(own[weight].cpu(), whole.to(own[weight].dtype)):
            continue  # the model's own, which peft saves with the change of an output layer
        does = "changes" if weight.removesuffix(".weight") in adapter.changes else "replaces"
        raise SettingsError(
            f"The adapter {str(adapter.folder)!r} {does} {weight}{' as a whole' if does == 'replaces' else ''}, which "
            f"cannot be attached to {model.name} unmerged. Merge it: adapter={str(adapter.folder)!r}."
        )
    with torch.inference_mode():
        if isinstance(forward, LlamaForward):
            forward.attach_lora(name, _unmerged_products(forward, adapter))
            return forward
        if not isinstance(forward, TransformersForward):
            raise SettingsError(
                f"Adapters cannot be attached to {model.name} unmerged. Merge one: adapter={str(adapter.folder)!r}."
            )
        forward.attach_lora(name, _unmerged_modules(forward, adapter))
    return None


def _unmerged_products(forward: LlamaForward, adapter: LoraAdapter) -> Places:
    """Return what an adapter adds to each product, by layer number and product name.

    Raises `SettingsError` if it does not fit.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for number, layer in enumerate(forward.weights.layers):
        for name, weight in layer.products.items():
            for module, outer in _parts_of(forward, name, weight):
                shapes[f"model.layers.{number}.{module}.weight"] = (outer, _inner(weight))
    if "lm_head" in adapter.changes:
        raise SettingsError(
            f"The adapter {str(adapter.folder)!r} changes lm_head, but an unmerged adapter can change only products "
            f"of layers. Merge it: adapter={str(adapter.folder)!r}."
        )
    adapter.check(shapes)
    places: dict[tuple[int, str], UnmergedLora] = {}
    for number, layer in enumerate(forward.weights.layers):
        for name, weight in layer.products.items():
            parts = _parts_of(forward, name, weight)
            changes = [(adapter.changes.get(f"model.layers.{number}.{module}"), outer) for module, outer in parts]
            if any(change is not None for change, _ in changes):
                places[number, name] = made = UnmergedLora.joined(changes, weight)
                for each in made.changes:
                    adapter.check_numbers(f"{name} of layer {number}", each.factor)
    return places


def _unmerged_modules(forward: TransformersForward, adapter: LoraAdapter) -> dict[str, UnmergedLora]:
    """Return what an adapter adds to the products of linear layers, by their names in transformers."""
    modules = dict(forward.model.named_modules())
    adapter.check({name: tuple(each.shape) for name, each in forward.model.named_parameters()})
    found: dict[str, UnmergedLora] = {}
    for name, change in adapter.changes.items():
        module = modules[name]
        if type(module) is not torch.nn.Linear or not module.weight.is_floating_point():
            raise adapter.misfit(f"{name} is a {type(module).__name__}, to which nothing can be added")
        weight: Tensor = module.weight.data
        found[name] = UnmergedLora.joined([(change, weight.shape[0])], weight)
        adapter.check_numbers(name, found[name].changes[0].factor)
    return found


def _parts_of(forward: LlamaForward, name: str, weight: Weight) -> list[tuple[str, int]]:
    """Return the modules of a layer that a product joins, by their names in transformers, and the rows of each."""
    outer = weight.shape[0] if isinstance(weight, Tensor) else weight.outer
    if forward.family.is_joined and name in _JOINED:
        return [(_JOINED[name], outer)]
    heads, stored = (count * forward.head_width for count in forward.heads)
    return {
        "query_key_value": [("self_attn.q_proj", heads), ("self_attn.k_proj", stored), ("self_attn.v_proj", stored)],
        "output": [("self_attn.o_proj", outer)],
        "gate_up": [("mlp.gate_proj", outer // 2), ("mlp.up_proj", outer // 2)],
        "down": [("mlp.down_proj", outer)],
    }[name]


@dataclass(frozen=True, slots=True)
class OutputChange:
    """The change of some outputs of a product, in float32.

    Attributes:
        first: the first of the outputs.
        last: one past the last output.
        down: # [rank, inner]
        up: # [outputs, rank]
        factor: multiplies the changed outputs (DoRA) # [outputs]
    """

    first: int
    last: int
    down: Tensor
    up: Tensor
    factor: Tensor | None


class UnmergedLora:
    """The changes of one product, which can join multiple modules.

    Args:
        changes: in the order of the outputs.
        outer: outputs of the product.
    """

    def __init__(self, changes: Iterable[OutputChange], outer: int) -> None:
        self.changes = tuple(changes)
        self._outer = outer
        self._as: dict[torch.dtype, tuple[Tensor, Tensor, Tensor | None]] = {}

    @classmethod
    def joined(cls, changes: Iterable[tuple[LoraDelta | None, int]], weight: Weight) -> UnmergedLora:
        """Join the changes of the parts of a weight.

        Args:
            changes: of each part, and its number of rows.
            weight: of the product # [outer, inner]
        """
        dense: Tensor | None = None
        found, start = list[OutputChange](), 0
        device = weight.device if isinstance(weight, Tensor) else torch.device("cpu")
        for change, outer in changes:
            if change is not None:
                own, factor = change.to(device), None
                down, up = own.down.float(), own.up.float()
                if own.magnitude is not None:
                    dense = unpacked(weight, torch.float32) if dense is None else dense
                    factor = own.factor(dense[start : start + outer].float() + up @ down)
                found.append(OutputChange(start, start + outer, down, up, factor))
            start += outer
        return cls(found, start)

    def __call__(self, rows: Tensor, product: Tensor) -> Tensor:
        """Add the changes to a product without its bias.

        Args:
            rows: the multiplied rows # [..., inner]
            product: their product with the weight # [..., outer]
        """
        down, up, factor = self._as.get(rows.dtype) or self._whole(rows.dtype)
        changed = product + (rows @ down.T) @ up.T
        return changed if factor is None else changed * factor

    def _whole(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return all changes as two matrices, and a factor for each output."""
        like, ups, factor = self.changes[0].up, list[Tensor](), None
        for change in self.changes:
            whole = like.new_zeros(self._outer, change.up.shape[1])
            whole[change.first : change.last] = change.up
            ups.append(whole)
            if change.factor is not None:
                factor = like.new_ones(self._outer) if factor is None else factor
                factor[change.first : change.last] = change.factor
        down = torch.cat([change.down for change in self.changes])
        lengths = None if factor is None else factor.to(dtype)
        self._as[dtype] = down.to(dtype), torch.cat(ups, 1).to(dtype), lengths
        return self._as[dtype]


def _inner(weight: Weight) -> int:
    return weight.shape[1] if isinstance(weight, Tensor) else weight.inner
