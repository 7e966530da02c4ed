"""Runs a transformers model whose weights are held in blocks, some lines at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor
from torch.nn.functional import linear

from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.llama_layer import multiplied
from stretto.local_engine.model.forward.products import Weight
from stretto.local_engine.model.quantised.blocks import widened_product

__all__ = ["runnable"]


@contextmanager
def runnable(model: Any, forward: LlamaForward, look: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let a model that was let go of its weights run in transformers' code meanwhile. Memory holds a piece of a weight.

    ``look``: called before each piece; it may raise, to end the run.
    """
    with ExitStack() as stack:

        def instead(module: Any, run: Callable[[Tensor], Tensor]) -> None:
            module.forward = run
            stack.callback(delattr, module, "forward")

        for layer, own in zip(model.model.layers, forward.layers, strict=True):
            for name, modules in multiplied(layer).items():
                first = 0
                for module in modules:
                    instead(module, _product(own.products[name], first, module.out_features, module.bias, look))
                    first += module.out_features
        instead(model.model.embed_tokens, forward.read_in)
        instead(model.lm_head, _product(forward.vocabulary, 0, forward.sizes[0], None, look))
        yield


def _product(
    weight: Weight, first: int, many: int, bias: Tensor | None, look: Callable[[], None]
) -> Callable[[Tensor], Tensor]:
    """The product with some lines of a weight."""
    if not isinstance(weight, Panels):
        return lambda states: linear(states, weight[first : first + many], bias)
    return lambda states: widened_product(weight, states, range(first, first + many), look, bias)
