"""A part of a model in one process, which repeats each forward of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.several_devices.mirror import repeat

__all__ = ["ModelPart", "asked"]

_OPTIONAL = ("slots", "ancestry", "real")


def asked(rows: Rows, cache: int, changes: list[Any], keep: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """One forward as a message; ``cache``: its number, ``told``: what was done to caches since the last one."""
    tensors = {"tokens": rows.tokens, "positions": rows.positions, "keep": keep}
    tensors |= {name: tensor for name in _OPTIONAL if (tensor := getattr(rows, name)) is not None}
    return {"changes": changes, "cache": cache, "kv_len": rows.kv_len, "lengths": rows.lengths}, tensors


class ModelPart:
    """Holds the caches of its part of the model.

    Args:
        forward: of this part.
        device: where it is.
    """

    def __init__(self, forward: Forward, device: torch.device) -> None:
        self._forward, self._device = forward, device
        self._caches: dict[int, KeyValueCache] = {}

    def run(self, said: Mapping[str, Any], given: Mapping[str, Tensor]) -> Tensor:
        """Do what `asked` says. Returns the logits # [batch, kept, vocabulary], in stages before the last one zeros."""
        repeat(said["changes"], self._caches)
        tensors = {name: tensor.to(self._device) for name, tensor in given.items()}
        lengths = said["lengths"]
        rows = Rows(
            tensors["tokens"],
            tensors["positions"],
            said["kv_len"],
            slots=tensors.get("slots"),
            ancestry=tensors.get("ancestry"),
            real=tensors.get("real"),
            lengths=None if lengths is None else tuple(lengths),
        )
        return self._forward(rows, self._caches[said["cache"]], tensors["keep"])
