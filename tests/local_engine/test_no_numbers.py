"""NaN in what a model computes: the request fails and says so, no other does, and nothing of it is kept."""

import pytest
import torch
from asking import outcome, tokens
from tiny_models import build

from stretto.local_engine.choosing.device_sampling import choose_at_once
from stretto.local_engine.choosing.sampling import Sampler
from stretto.local_engine.choosing.verify import verify
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import prepare
from stretto.values.errors import BackendError

SPOILED = 6  # a token that the texts do not hold by which a model is tried when it is loaded
GOOD, BAD = (*range(9, 30), 5), (*range(9, 30), SPOILED)
WAYS = {
    "greedy": {},
    "sampled": {"temperature": 1.0, "seed": 3},
    "limited": {"temperature": 1.0, "seed": 3, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.2},
    "in a format": {"response_format": "[a-f ]{2,30}", "end_ids": frozenset({2})},
    "drafted": {"decoding": "lookahead"},
}


@pytest.fixture(scope="module", params=["compiled", "torch", "transformers"])
def spoiled(request, tokenizer):
    model = build("gpt neo" if request.param == "transformers" else "llama")
    if request.param == "transformers":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())  # it is tied
    model.get_input_embeddings().weight.data[SPOILED] = torch.nan
    return prepare("local:spoiled", model, tokenizer, compiled=request.param == "compiled")


def failure(handle):
    _, end = outcome(handle)
    assert isinstance(end.error, BackendError)
    return str(end.error)


@pytest.mark.parametrize("way", WAYS)
def test_a_request_that_meets_nan_fails_alone_and_leaves_nothing_behind(way, spoiled, start):
    engine = start(spoiled, prefix_cache_bytes=2**24)
    expected = tokens(engine.submit(Generation(GOOD, 8, **WAYS[way])))
    with engine.announced():
        both = [engine.submit(Generation(prompt, 8, **WAYS[way])) for prompt in (BAD, GOOD)]
    assert "computed NaN or an infinite number. Its weights or those of an adapter are damaged" in failure(both[0])
    assert tokens(both[1]) == expected
    again = engine.submit(Generation((*BAD, 7), 1, **WAYS[way]))
    assert "computed NaN" in failure(again)
    assert again.sequence.cached < len(BAD)  # what was read of it before is not known


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_tokens_that_are_chosen_on_a_gpu_tell_it_too(number):
    logits = torch.randn(2, 1, 40)
    logits[1, 0, 7] = number
    for options in ({}, {"temperature": 1.0}, {"temperature": 1.0, "top_p": 0.5}):
        samplers = [Sampler(Generation((5,), 4, **options), torch.device("cpu")) for _ in range(2)]
        chosen = choose_at_once(logits[:, 0], samplers, [(), ()])
        assert chosen[0] >= 0
        assert chosen[1] == -1


def test_a_row_of_nan_behind_a_draft_that_is_not_accepted_harms_nothing():
    logits, tree = torch.randn(1, 2, 40), DraftTree()
    logits[0, 1] = torch.nan
    own = int(logits[0, 0].argmax())
    tree.add((own + 1) % 40, -1)
    sampler = Sampler(Generation((5,), 4), torch.device("cpu"))
    (verdict,) = verify(logits, [tree], [sampler], [frozenset()])
    assert (verdict.tokens, sampler.failure) == ([own], None)
