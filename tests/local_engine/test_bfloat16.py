"""In bfloat16 torch's rounding depends on how many rows a forward has: answers part where two tokens are all but equal.

What holds is that each token is the most probable one after those before it, or all but. Where forwards are compiled,
every answer is the same.
"""

import pytest
import torch
from asking import PROMPTS, submit_together, tokens
from tiny_models import build
from wild_drafters import Oracle, RandomTrees

from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import prepare

GAP = 0.1  # standard deviations of a row's logits; benchmarks/exactness.py holds the long run to the same
LENGTH = 24
METHODS = [*sorted(DRAFTERS.keys() - EQUIPPED), "draft_model", "random", "oracle"]


def gaps(model, prompt, answer):
    """How far each token is below the most probable one, by forwards of one row."""
    cache, text, keep, found = KeyValueCache(1), [*prompt, *answer], torch.tensor([0]), []
    steps = [(0, len(prompt)), *((place, place + 1) for place in range(len(prompt), len(text) - 1))]
    with torch.inference_mode():
        for start, stop in steps:
            rows = Rows(torch.tensor([text[start:stop]]), torch.arange(start, stop)[None], stop)
            logits = model.forward(rows, cache, keep + stop - start - 1)[0, 0].float()
            found.append(float((logits.max() - logits[text[stop]]) / logits.std()))
    return found


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "mistral", "gemma2"])
def test_every_token_is_the_most_probable_one_or_all_but(architecture, tokenizer, start):
    model = prepare(f"local:{architecture}", build(architecture).bfloat16(), tokenizer)
    answers = {}
    drafters = DRAFTERS | {"random": lambda _: RandomTrees(), "oracle": lambda _: Oracle(answers)}
    engine = start(model, draft=model, drafters=drafters)
    prompts = PROMPTS[:2]
    for prompt in prompts:
        answers[prompt] = tokens(engine.submit(Generation(prompt, LENGTH)))
    requests = [Generation(prompt, LENGTH, decoding=method) for method in METHODS for prompt in prompts]
    seen = {}
    for handle in submit_together(engine, requests):
        answer = tuple(tokens(handle))
        request = handle.sequence.request
        if (request.prompt, answer) not in seen:
            seen[request.prompt, answer] = gaps(model, request.prompt, answer)
        assert max(seen[request.prompt, answer]) <= GAP, request.decoding
    assert model.is_exact == (architecture != "gemma2")
    if model.is_exact:
        assert len(seen) == len(prompts)
    wrong = [*answers[prompts[0]][:9], 7, *answers[prompts[0]][10:]]
    assert gaps(model, prompts[0], wrong)[9] > GAP  # another token would not pass
