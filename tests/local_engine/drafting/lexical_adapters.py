"""[PAD] adapters of tiny models."""

import torch

from recipes.lexical.train import Plan, new_adapter
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.research.lexical.pads import PadAdapter

SMALL = Plan(tokens=4, beside=8, last=16)


def adapted(model, plan=SMALL, seed=3):
    """Gives a tiny model's forward a random adapter whose every part acts, if it has none."""
    if model.forward.adapter is None:
        adapter = random_adapter(model, plan, seed)
        assert compile_now(model.forward.parts_for(adapter))
        model.forward.attach(adapter)
    return model


def random_adapter(model, plan=SMALL, seed=3):
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randn(tensor.shape, generator=generator).to(model.dtype) * 0.3
        for name, tensor in new_adapter(model.forward, plan).items()
    }
    return PadAdapter.of(tensors)
