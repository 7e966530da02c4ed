"""Lexical units give token for token what one token at a time gives, with adapters of random weights."""

import pytest
from lexical_adapters import adapted
from one_batch import run
from test_exactness import FREE, PROMPTS

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Generation

pytestmark = pytest.mark.thorough  # it compiles a forward of its own


def both(model, requests):
    """What one token at a time gives of each request, and what lexical units give of all in one batch."""
    adapted(model)
    expected = [run(model, [request], [Autoregressive()])[0][0] for request in requests]
    drafters = [DRAFTERS["lexical"](DraftEquipment(cost=FREE, model=model)) for _ in requests]
    return expected, run(model, requests, drafters)[0]


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "mistral"])
def test_greedy_alone_and_in_a_batch(architecture, loaded):
    requests = [Generation(prompt, 22 + 9 * number) for number, prompt in enumerate(PROMPTS)]
    for asked in (requests[2:], requests):
        expected, found = both(loaded(architecture), asked)
        assert found == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_answer(seed, loaded):
    expected, found = both(loaded("llama"), [Generation(PROMPTS[0], 30, temperature=0.6, top_p=0.95, seed=seed)])
    assert found == expected


def test_an_end_token_inside_an_accepted_unit_ends_the_answer(loaded):
    model = loaded("llama")
    (free,), _ = both(model, [Generation(PROMPTS[0], 40)])
    for place in (6, 7, 8, 20):
        ends = frozenset({399, free[place]})
        _, (found,) = both(model, [Generation(PROMPTS[0], 40, ends)])
        assert found == free[: free.index(free[place]) + 1]
