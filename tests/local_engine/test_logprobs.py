"""Log-probabilities are the model's own, whichever method found the tokens."""

import pytest
import torch
from asking import PROMPTS, submit_together
from tiny_models import build
from wild_drafters import RandomTrees

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.generation import Generation, Piece

SETTINGS = {"temperature": 0.8, "top_k": 40, "repetition_penalty": 1.2, "logit_bias": {7: 2.0}, "seed": 3}


def scores(handle):
    """What the pieces report, and that it is one for each token."""
    pieces = [event for event in handle if isinstance(event, Piece)]
    assert [score.token for piece in pieces for score in piece.logprobs] == handle.sequence.generated
    assert all([score.token for score in piece.logprobs] == list(piece.tokens) for piece in pieces)
    return [score for piece in pieces for score in piece.logprobs]


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["greedy", "sampled"])
@pytest.mark.parametrize("architecture", ["llama", "gemma2"])
def test_they_are_what_transformers_says_of_the_same_tokens(architecture, settings, loaded, start):
    prompt, length, top = PROMPTS[0], 20, 3
    engine = start(loaded(architecture), drafters=DRAFTERS | {"random": lambda _: RandomTrees()})
    methods = ("autoregressive", "random", "suffix", "auto", "lookahead")
    requests = [Generation(prompt, length, decoding=method, logprobs=top, **settings) for method in methods]
    found = [scores(handle) for handle in submit_together(engine, requests)]
    answer = [score.token for score in found[0]]
    with torch.inference_mode():
        logits = build(architecture).eval()(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    expected = torch.log_softmax(logits, -1)
    best = expected.topk(top, dim=-1)
    for reported in found:
        assert [score.token for score in reported] == answer
        for place, score in enumerate(reported):
            assert abs(score.logprob - float(expected[place, score.token])) < 1e-3
            assert [token for token, _ in score.top] == best.indices[place].tolist()
            assert torch.allclose(torch.tensor([value for _, value in score.top]), best.values[place], atol=1e-3)


def test_an_end_token_has_one_too_and_without_the_option_there_are_none(loaded, start):
    engine = start(loaded("llama"))
    free = engine.submit(Generation(PROMPTS[0], 12))
    assert all(not event.logprobs for event in free if isinstance(event, Piece))
    end = free.sequence.generated[7]
    handle = engine.submit(Generation(PROMPTS[0], 12, frozenset({end}), logprobs=0, decoding="suffix"))
    reported = scores(handle)
    assert reported[-1].token == end
    assert all(score.top == () and score.logprob < 0 for score in reported)
