"""Heads that were taught what the model writes: their drafts are accepted, and no answer changes with them."""

import pytest
import torch
from asking import outcome, submit_together
from head_folders import LAYERS, eagle3, medusa, write
from one_batch import run
from plain_heads import eagle3 as plain_eagle3
from plain_heads import medusa as plain_medusa
from tiny_models import build
from torch.nn.functional import cross_entropy

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.rows import LAST

pytestmark = pytest.mark.thorough

FREE = StepCost({1: 1e6, 128: 1.001e6})  # however busy the machine is, drafting takes nothing of such a step
PROMPT = tuple((7 * place + 3) % 390 + 5 for place in range(11))
TOKENS = 40
SAMPLED = {"temperature": 0.8, "top_p": 0.95, "seed": 4}


def taught_eagle3(text, states, model):
    tensors, config = eagle3()
    tokens = torch.tensor(text)
    read = states[LAYERS][: len(text) - 2]
    return _taught(
        tensors, lambda: cross_entropy(plain_eagle3(tensors, config, read, tokens[1:-1], model), tokens[2:])
    ), config


def taught_medusa(text, states, model):
    tensors, config = medusa(heads=2)
    tokens = torch.tensor(text)

    def loss():
        each = [
            cross_entropy(
                torch.stack([plain_medusa(tensors, config, state, head) for state in last]),
                tokens[2 + head : 2 + head + len(last)],
            )
            for head in range(2)
            for last in (states[LAST,][: len(text) - 2 - head],)
        ]
        return sum(each)

    return _taught(tensors, loss), config


def _taught(tensors, loss):
    parameters = [tensor.requires_grad_() for tensor in tensors.values()]
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    for _ in range(25):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return {name: tensor.detach() for name, tensor in tensors.items()}


TAUGHT = {"eagle3": taught_eagle3, "medusa": taught_medusa}


@pytest.fixture(scope="module")
def folders(loaded, tmp_path_factory):
    """Heads that know the greedy answer to the prompt."""
    model = build("llama").requires_grad_(False)
    text = [*PROMPT, *run(loaded("llama"), [Generation(PROMPT, TOKENS)], [Autoregressive()])[0][0]]
    found = model(input_ids=torch.tensor([text]), output_hidden_states=True).hidden_states
    states = {layers: torch.cat([found[layer][0] for layer in layers], -1) for layers in (LAYERS, (LAST,))}
    base = tmp_path_factory.mktemp("heads")
    return {kind: write(base / kind, *teach(text, states, model)) for kind, teach in TAUGHT.items()}


@pytest.mark.parametrize("method", ["head", "auto"])
@pytest.mark.parametrize("kind", TAUGHT)
def test_its_drafts_are_accepted_and_the_answers_stay(kind, method, loaded, folders):
    model = loaded("llama")
    equipment = DraftEquipment(cost=FREE, model=model, head=folders[kind])
    requests = [Generation(PROMPT, TOKENS), Generation(PROMPT[:7], 20), Generation(PROMPT, 30, **SAMPLED)]
    expected, plain_steps = run(model, requests, [Autoregressive() for _ in requests])
    alone, steps = run(model, requests[:1], [DRAFTERS[method](equipment)])
    assert alone == expected[:1]
    assert steps[0] < 0.7 * plain_steps[0]
    assert run(model, requests, [DRAFTERS[method](equipment) for _ in requests])[0] == expected


@pytest.mark.parametrize("kind", TAUGHT)
def test_with_a_format_and_from_a_known_prefix_the_answers_stay(kind, loaded, folders, start):
    engine = start(loaded("llama"), head=folders[kind], prefix_cache_bytes=2**24)
    end = frozenset({2})
    given = [
        {"response_format": "([a-f]{3} ){2,9}", "end_ids": end},
        {"response_format": {"type": "array", "items": {"type": "integer"}, "maxItems": 9}, "end_ids": end},
        SAMPLED,
        {"repetition_penalty": 1.3},
        {},
    ]
    answers = {}
    for method in ("autoregressive", "head", "auto"):
        requests = [Generation(PROMPT, 30, decoding=method, **own) for own in given]
        handles = submit_together(engine, requests)
        ends = [outcome(handle)[1] for handle in handles]
        assert [(end.error, end.figures.warnings) for end in ends] == [(None, ())] * len(given)
        answers[method] = [handle.sequence.generated for handle in handles]
    assert answers["head"] == answers["auto"] == answers["autoregressive"]
