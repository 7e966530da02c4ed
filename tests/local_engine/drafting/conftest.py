"""A plain model with its hidden states, and what models answer without drafts."""

import pytest
import torch
from head_folders import LAYERS
from one_batch import EIGHT, run
from reading_heads import TEXT
from tiny_models import build

from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.model.forward.rows import LAST


@pytest.fixture(scope="session")
def reference():
    """The model by transformers."""
    return build("llama")


@pytest.fixture(scope="session")
def states(reference):
    """Of the layers that EAGLE-3 reads, of the two that DFlash reads, and the last ones, of all tokens but one."""
    with torch.inference_mode():
        found = reference(input_ids=torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    return {layers: torch.cat([found[layer][0, :-1] for layer in layers], -1) for layers in (LAYERS, (1, 2), (LAST,))}


@pytest.fixture(scope="session")
def plain_of():
    """What one token at a time gives, worked out once for each model."""
    known = {}

    def plain_of(model):
        if model.name not in known:
            known[model.name] = run(model, EIGHT, [Autoregressive() for _ in EIGHT])[0]
        return known[model.name]

    return plain_of
