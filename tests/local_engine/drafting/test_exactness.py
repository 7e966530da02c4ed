"""Every method gives token for token what one token at a time gives, from tiny models with random weights."""

import pytest
from corners import corners
from one_batch import EIGHT, START, run

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.catalogue import METHODS as KNOWN
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation

METHODS = sorted(
    name
    for name, method in KNOWN.items()
    if name != "autoregressive" and not (method.adapter or method.lossy or method.missing)
)
ARCHITECTURES = ["llama", "qwen3", "mistral", "gemma2"]
FREE = StepCost({1: 10.0, 128: 10.1})
PROMPTS = [(*START * 3, 12), (7, 8, 9), (*START, 5, 6, *START, 5)]


def drafter(method, loaded, model):
    return DRAFTERS[method](DraftEquipment(cost=FREE, model=model, draft=loaded("qwen3")))


@pytest.fixture(scope="module")
def plain(loaded):
    """What one token at a time gives, worked out once for each request."""
    known = {}

    def plain(architecture, request):
        if (architecture, repr(request)) not in known:
            known[architecture, repr(request)] = run(loaded(architecture), [request], [Autoregressive()])[0][0]
        return known[architecture, repr(request)]

    return plain


@pytest.mark.parametrize(
    ("method", "architecture"),
    corners(METHODS, ARCHITECTURES, of=lambda method, name: name == "llama" or method in {"auto", "lookahead"}),
)
def test_greedy_alone_and_in_a_batch(method, architecture, loaded, plain):
    model = loaded(architecture)
    requests = [Generation(prompt, 22 + 9 * number) for number, prompt in enumerate(PROMPTS)]
    expected = [plain(architecture, request) for request in requests]
    assert run(model, requests[2:], [drafter(method, loaded, model)])[0] == expected[2:]
    assert run(model, requests, [drafter(method, loaded, model) for _ in requests])[0] == expected


@pytest.mark.parametrize("method", METHODS)
def test_eight_in_a_batch_greedy_by_seeds_and_in_a_format(method, loaded, plain):
    model = loaded("llama")
    assert run(model, EIGHT, [drafter(method, loaded, model) for _ in EIGHT])[0] == [
        plain("llama", each) for each in EIGHT
    ]


@pytest.mark.parametrize("method", METHODS)
def test_an_end_token_inside_an_accepted_span_ends_the_answer(method, loaded, plain):
    """The published lookahead code honours the first end token only, and only at the end of a span."""
    model = loaded("llama")
    free = plain("llama", Generation(PROMPTS[0], 40))
    for place in (6, 7, 8, 20):
        ends = frozenset({399, free[place]})
        expected = free[: free.index(free[place]) + 1]
        assert run(model, [Generation(PROMPTS[0], 40, ends)], [drafter(method, loaded, model)])[0][0] == expected


@pytest.mark.parametrize(("method", "least"), [("auto", 1.5), ("lookahead", 1.3)])
def test_what_the_model_has_computed_saves_it_steps(method, least, loaded, plain):
    """Its text is no phrase of the prompt's, but one with random weights goes by the last few tokens."""
    request = Generation(PROMPTS[0], 200)
    tokens, steps = run(loaded("qwen3"), [request], [drafter(method, loaded, None)])
    assert tokens == [plain("qwen3", request)]
    assert 199 / steps[0] > least
