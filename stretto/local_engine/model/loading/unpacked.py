"""A forward that runs in torch's operations until its code is compiled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import are_ready
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.numerics_check import Expected, disagreement

__all__ = ["Unpacked"]

_log = logging.getLogger(__name__)


class Unpacked:
    """Lays a model's weights out for compiled code when that is ready.

    Args:
        model: of transformers, whose weights the forward runs.
        forward: of the model.
        parts: of compiled code that the forward needs.
        limit: standard deviations by which logits may differ.
        owned: nobody else runs the model, so it may be let go of its weights.
    """

    def __init__(self, model: Any, forward: LlamaForward, parts: Sequence[Part], limit: float, *, owned: bool) -> None:
        self.parts = tuple(parts)
        self._forward, self._limit, self._owned = forward, limit, owned
        with torch.inference_mode():
            self._waiting: tuple[Any, Expected] | None = (model, Expected.of(model))

    def pack(self) -> None:
        """Change to compiled code, if that is ready and agrees with the model. No request may be running.

        Keys and values that were computed before cannot be used afterwards.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None or not are_ready(self.parts):
            return
        model, expected = waiting
        try:
            with torch.inference_mode(mode=False):
                self._forward.pack(model if self._owned else None)
            with torch.inference_mode():
                gap = disagreement(expected, self._forward)
            if gap < self._limit:
                return
            cause = f"logits are off by {gap:.2g} standard deviations"
        except Exception as error:  # noqa: BLE001 - the model goes on as it was
            cause = f"{type(error).__name__}: {error}"
        with torch.inference_mode(mode=False):
            self._forward.unpack(model)
        _log.warning("packed weights are not used: %s", cause)
