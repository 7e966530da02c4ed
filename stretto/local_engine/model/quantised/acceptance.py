"""Compares a forward with weights in few bits with the model itself, before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto.errors import BackendError
from stretto.local_engine.kernels.parts import Part
from stretto.local_engine.model.acceptance import Expected, disagreement
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.quantised.kept import keep, kept
from stretto.local_engine.model.quantised.quantisation import Quantisation
from stretto.local_engine.model.quantised.reference import runnable

__all__ = ["OF_BLOCKS", "NotInBlocksError", "in_blocks"]

OF_BLOCKS = 0.5
"""Standard deviations by which logits may differ where rows are rounded to 8 bits."""


class NotInBlocksError(BackendError):
    """Products with weights in few bits cannot be used here. The message says why, and is no sentence."""


def in_blocks(
    name: str, model: Any, quantisation: Quantisation, ready: Callable[[Sequence[Part]], bool]
) -> LlamaForward:
    """The lean forward with weights in few bits, if its logits are near those of the model with the same numbers.

    The rest of the gap is the rounding of rows to 8 bits. The model is let go of its weights before it runs, a layer at
    a time, so memory never holds both. Raises `NotInBlocksError` if it cannot be used; the model cannot either then.
    """
    lean = LlamaForward(model, quantisation)
    if not ready(lean.parts()):
        raise NotInBlocksError("it is not compiled", backend=name)
    try:
        lean.pack(model)
        model.float()  # what is left of it
        with torch.inference_mode():
            known = kept(quantisation.key, Expected) if quantisation.key else None
            if known is not None and disagreement(known, lean) < OF_BLOCKS:
                return lean
            with runnable(model, lean):
                expected = Expected.of(model)
            gap = disagreement(expected, lean)
    except Exception as error:
        raise NotInBlocksError(f"{type(error).__name__}: {error}", backend=name) from error
    if not gap < OF_BLOCKS:
        raise NotInBlocksError(f"logits are off by {gap:.2g} standard deviations", backend=name)
    if quantisation.key:
        keep(quantisation.key, expected)
    return lean
