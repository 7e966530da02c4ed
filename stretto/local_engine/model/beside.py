"""A model with a low-rank adapter beside its weights, which it shares with the model without and with other adapters.

The adapted forward is computed in torch's operations: compiled code knows the weights alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from stretto.errors import SettingsError
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.forward import Forward, TransformersForward
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.load import LoadedModel
from stretto.local_engine.model.low_rank import Change, LowRank
from stretto.local_engine.model.products import Weight, unpacked
from stretto.local_engine.model.rows import Rows

__all__ = ["Beside", "beside_products", "with_adapter"]


def with_adapter(model: LoadedModel, adapter: LowRank) -> LoadedModel:
    """The same model with an adapter beside its weights. Raises `SettingsError` where that does not fit or work."""
    forward = getattr(model.forward, "plain", model.forward)  # not the steps that were recorded without it
    if adapter.replaced:
        raise SettingsError(
            f"The adapter {str(adapter.folder)!r} replaces {min(adapter.replaced)} as a whole, which cannot be kept "
            f"beside {model.name}. Merge it: adapter={str(adapter.folder)!r}."
        )
    with torch.inference_mode():
        adapted: Forward
        if isinstance(forward, LlamaForward):
            adapted = _lean(forward, adapter)
        elif isinstance(forward, TransformersForward) and forward.switch is None:
            adapted = _General(forward, adapter)
        else:
            raise SettingsError(
                f"Adapters cannot be kept beside {model.name}, whose rotary factors change with the length. Merge one: "
                f"adapter={str(adapter.folder)!r}."
            )
    return replace(model, forward=adapted, unpacked=None)


def _lean(forward: LlamaForward, adapter: LowRank) -> LlamaForward:
    copy = forward.unchanging_copy()
    copy.beside = beside_products(copy, adapter)
    return copy


def beside_products(forward: LlamaForward, adapter: LowRank) -> dict[tuple[int, str], Beside]:
    """What an adapter adds to each product, by the number of the layer and the product's name.

    Raises `SettingsError` where it does not fit.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for number, layer in enumerate(forward.layers):
        for name, weight in layer.products.items():
            for module, outer in _parts_of(forward, name, weight):
                shapes[f"model.layers.{number}.{module}.weight"] = (outer, _inner(weight))
    adapter.check(shapes)
    beside: dict[tuple[int, str], Beside] = {}
    for number, layer in enumerate(forward.layers):
        for name, weight in layer.products.items():
            parts = _parts_of(forward, name, weight)
            changes = [(adapter.changes.get(f"model.layers.{number}.{module}"), outer) for module, outer in parts]
            if any(change is not None for change, _ in changes):
                beside[number, name] = Beside.joined(changes, weight, forward.dtype)
    return beside


def _parts_of(forward: LlamaForward, name: str, weight: Weight) -> list[tuple[str, int]]:
    """The modules of a layer that a product joins, by their names in transformers, and the rows of each."""
    outer = weight.shape[0] if isinstance(weight, Tensor) else weight.outer
    heads, stored = (count * forward.head_width for count in forward.heads)
    return {
        "query_key_value": [("self_attn.q_proj", heads), ("self_attn.k_proj", stored), ("self_attn.v_proj", stored)],
        "output": [("self_attn.o_proj", outer)],
        "gate_up": [("mlp.gate_proj", outer // 2), ("mlp.up_proj", outer // 2)],
        "down": [("mlp.down_proj", outer)],
    }[name]


class Beside:
    """The changes of one product, which may be of several modules."""

    def __init__(self, down: Tensor, up: Tensor, factor: Tensor | None) -> None:
        self._down, self._up, self._factor = down, up, factor

    @classmethod
    def joined(cls, changes: Iterable[tuple[Change | None, int]], weight: Weight, dtype: torch.dtype) -> Beside:
        """Join the changes of the parts of a weight, each with its rows in it.

        Args:
            changes: of each part, and how many rows it has.
            weight: of the product # [outer, inner]
            dtype: of what the product is computed in.
        """
        dense, downs, ups, factors, start = unpacked(weight, torch.float32), list[Tensor](), list[Tensor](), [], 0
        device, total = dense.device, dense.shape[0]
        for change, outer in changes:
            factor = None
            if change is not None:
                own = change.to(device)
                down, up = own.down, own.up
                whole = up.new_zeros(total, up.shape[1])
                whole[start : start + outer] = up
                downs.append(down.float())
                ups.append(whole)
                if own.magnitude is not None:
                    changed = dense[start : start + outer].float() + up.float() @ down.float()
                    factor = own.factor(changed)
            factors.append(torch.ones(outer, device=device) if factor is None else factor)
            start += outer
        lengths = None if all(bool((factor == 1).all()) for factor in factors) else torch.cat(factors).to(dtype)
        return cls(torch.cat(downs).to(dtype), torch.cat(ups, 1).to(dtype), lengths)

    def __call__(self, rows: Tensor, product: Tensor) -> Tensor:
        """Add the changes to a product without its bias.

        Args:
            rows: that were multiplied # [..., inner]
            product: with the weight # [..., outer]
        """
        changed = product + (rows @ self._down.T) @ self._up.T
        return changed if self._factor is None else changed * self._factor


class _General:
    """transformers' own code with an adapter: its linear layers add the changes in the thread that asks for them."""

    def __init__(self, forward: TransformersForward, adapter: LowRank) -> None:
        self._forward = forward
        modules = dict(forward.model.named_modules())
        shapes = {name: tuple(each.shape) for name, each in forward.model.named_parameters()}
        adapter.check(shapes)
        self._changes: dict[str, Beside] = {}
        for name, change in adapter.changes.items():
            module = modules[name]
            if type(module) is not torch.nn.Linear or not module.weight.is_floating_point():
                raise adapter.misfit(f"{name} is a {type(module).__name__}, to which nothing can be added")
            weight: Tensor = module.weight.data
            self._changes[name] = Beside.joined([(change, weight.shape[0])], weight, weight.dtype)
            _listen(module, name)
        self.packs, self.is_exact, self.alone = forward.packs, forward.is_exact, forward.alone
        self.switch, self.longest = forward.switch, forward.longest

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `stretto.local_engine.model.forward.Forward`."""
        with _changing(self._changes):
            return self._forward(rows, cache, keep)


_here = threading.local()


@contextmanager
def _changing(changes: Mapping[str, Beside]) -> Iterator[None]:
    """Let the linear layers of this thread be changed."""
    _here.changes = changes
    try:
        yield
    finally:
        _here.changes = {}


def _listen(module: Any, name: str) -> None:
    """Let a linear layer look for its change, once however many adapters there are."""
    if getattr(module, "stretto_listens", False):
        return
    module.stretto_listens = True

    def changed(own: Any, given: tuple[Tensor, ...], product: Tensor) -> Tensor:
        change: Beside | None = getattr(_here, "changes", {}).get(name)
        if change is None:
            return product
        if own.bias is None:
            return change(given[0], product)
        with_bias: Tensor = change(given[0], product - own.bias) + own.bias
        return with_bias

    module.register_forward_hook(changed)


def _inner(weight: Weight) -> int:
    return weight.shape[1] if isinstance(weight, Tensor) else weight.inner
