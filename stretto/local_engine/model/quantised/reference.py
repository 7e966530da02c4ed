"""Runs a transformers model whose weights are held in blocks, a layer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.llama_layer import let_go, take_back

__all__ = ["runnable"]

_PIECE = 2**22  # numbers of the last product that are read back together


@contextmanager
def runnable(model: Any, forward: LlamaForward) -> Iterator[None]:
    """Let a model that was let go of its weights run in transformers' code meanwhile: each layer gets them in turn."""

    def fill(number: int, layer: Any) -> None:
        take_back(layer, forward.layers[number].unpacked(torch.float32))

    with ExitStack() as stack:
        for number, layer in enumerate(model.model.layers):
            before = layer.register_forward_pre_hook(lambda layer, _, number=number: fill(number, layer))
            behind = layer.register_forward_hook(lambda layer, *_: let_go(layer))
            stack.callback(before.remove)
            stack.callback(behind.remove)
        for module, run in ((model.model.embed_tokens, forward.read_in), (model.lm_head, _last_product(forward))):
            module.forward = run
            stack.callback(delattr, module, "forward")
        yield


def _last_product(forward: LlamaForward) -> Any:
    """The product with the vocabulary as torch computes it, some outputs at a time."""
    vocabulary = forward.vocabulary

    def run(states: Tensor) -> Tensor:
        if not isinstance(vocabulary, Panels):
            return linear(states, vocabulary)
        step = max(1, _PIECE // (PANEL * vocabulary.inner)) * PANEL
        numbers = torch.arange(vocabulary.outer)
        pieces = numbers.split(step)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return torch.cat([linear(states, vocabulary.rows(each)) for each in pieces], -1)

    return run
