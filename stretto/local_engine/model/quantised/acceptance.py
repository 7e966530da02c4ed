"""Builds a forward with low-bit weights, and checks it for numbers that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import are_ready, compile_now
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.loading_progress import step
from stretto.local_engine.model.quantised.quantisation import IN_BLOCKS, Quantisation
from stretto.values.errors import BackendError


class NotInBlocksError(BackendError):
    """Products with low-bit weights cannot be used here. The message states the cause, not as a sentence."""


class Partial:
    """A forward of which only the products are compiled so far. It has the interface of `Unpacked`."""

    def __init__(self, forward: LlamaForward, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._forward = forward

    def pack(self) -> None:
        if are_ready(self.parts):
            self._forward.run_whole()


def in_blocks(
    name: str, model: Any, quantisation: Quantisation, ready: Callable[[Sequence[Part]], bool]
) -> LlamaForward:
    """Return the lean forward with low-bit weights. Waits until their products are compiled; the rest can come later.

    The model gives up its weights layer by layer, so memory never contains both. The logits of the forward are compared
    with those of the model after the first answer: `stretto.local_engine.model.quantised.comparison`. Raises
    `NotInBlocksError` if it cannot be used; the model cannot be used either then.
    """
    lean = LlamaForward(model, quantisation)
    try:
        lean.pack(model)
        model.float()  # what is left of it
        if not are_ready(IN_BLOCKS):
            step(name, "compiling for this processor")
        compiled = compile_now(IN_BLOCKS)  # after packing, during which the compiler runs
        if compiled and ready(lean.parts()):
            lean.run_whole()
    except Exception as error:
        raise NotInBlocksError(f"{type(error).__name__}: {error}", backend=name) from error
    if not compiled:
        raise NotInBlocksError("they are not compiled", backend=name)
    if wrong := next((own for own, weight in model.named_parameters() if not weight.isfinite().all()), None):
        raise NotInBlocksError(f"{wrong} holds a number that is none", backend=name)
    return lean
