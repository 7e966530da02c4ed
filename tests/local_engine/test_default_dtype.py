"""While a model is being loaded, transformers sets torch's default dtype for all threads; those that answer go on."""

from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, tokens

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.generation import Generation

REQUESTS = {
    "greedy": {},
    "sampled": {"temperature": 0.9, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "seed": 7},
    "biased": {"logit_bias": {5: 3.25, 9: -2.125}},
    "scored": {"logprobs": 2},
} | {name: {"decoding": name} for name in DRAFTERS if name not in ("draft_model", "head", "lexical", "lexical_lossy")}


@pytest.fixture
def another_default():
    yield lambda: torch.set_default_dtype(torch.bfloat16)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled code chooses", "torch chooses"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_the_answers_do_not_depend_on_the_default_dtype(architecture, compiled, loaded, start, another_default):
    model = replace(loaded(architecture), end_ids=frozenset(), compiled=compiled)

    def answers():
        engine = start(model)
        return {name: tokens(engine.submit(Generation(PROMPTS[0], 12, **given))) for name, given in REQUESTS.items()}

    expected = answers()
    another_default()
    assert answers() == expected
