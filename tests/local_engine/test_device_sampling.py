"""Choosing all at once is choosing one by one, and makes the host wait once."""

import numpy as np
import pytest
import torch
from corners import corners
from pretend_gpu import CUDA, PretendGPU, afar, on_pretend_gpu
from tiny_models import build

from stretto.local_engine.choosing.constraint import Grammars
from stretto.local_engine.choosing.device_sampling import choose_at_once
from stretto.local_engine.choosing.sampling import Sampler, choose
from stretto.local_engine.choosing.verify import verify
from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED, DraftEquipment
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving.batch import Batch
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence

pytestmark = pytest.mark.thorough

CPU = torch.device("cpu")
START = [(11 * place + 3) % 390 + 5 for place in range(9)]
PROMPT = (*START * 3, 12)
FREE = StepCost({1: 10.0, 128: 10.1})
SETTINGS = {
    "greedy": {},
    "sampled": {"temperature": 0.9},
    "top-k": {"temperature": 1.1, "top_k": 5},
    "many of top-k": {"temperature": 1.1, "top_k": 300},
    "top-p": {"temperature": 0.8, "top_p": 0.8},
    "min-p": {"temperature": 1.3, "min_p": 0.1},
    "greedy with penalty": {"repetition_penalty": 1.3},
    "penalty, bias and limits": {
        "temperature": 0.9,
        "top_p": 0.9,
        "top_k": 40,
        "repetition_penalty": 1.2,
        "logit_bias": {7: 3.0, 8: -2.0},
    },
    "greedy without repetition": {"no_repeat_ngram_size": 2, "suppress_tokens": (7, 8), "begin_suppress_tokens": (9,)},
    "sampled without repetition": {"temperature": 0.9, "no_repeat_ngram_size": 3, "repetition_penalty": 1.2},
}


def sampler(device=CPU, seed=3, **settings):
    return Sampler(Generation((1, 2, 3), 99, seed=seed, **settings), device)


def logits(rows, vocabulary=600, seed=1, spread=3.0):
    return spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


def tree(depth, width=2):
    """A chain with leaves beside it; the tokens on the chain are the place's, and [PAD]s end it."""
    made, parent = DraftTree(), ROOT
    for place in range(depth):
        nodes = [made.add(20 * place + beside, parent, 0.5) for beside in range(width)]
        parent = nodes[0]
    made.add(-1, parent, 0.5)
    return made


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_chosen_at_once_get_what_they_get_one_by_one(settings, dtype):
    rows = logits(12).to(dtype)
    paths = [[5 * place + step for step in range(place % 4)] for place in range(12)]
    together, alone = sampler(**settings), sampler(**settings)
    for each in (together, alone):
        each.commit([4, 9, 4])
    expected = [choose(row[None], [alone], [path])[0] for row, path in zip(rows, paths, strict=True)]
    assert choose_at_once(rows, [together] * 12, paths) == expected


def test_requests_with_other_settings_in_the_same_step_change_nothing():
    rows, kinds = logits(3 * len(SETTINGS)), list(SETTINGS.values())
    together, alone = [sampler(**kind) for kind in kinds], [sampler(**kind) for kind in kinds]
    paths = [[place] * (place % 3) for place in range(len(rows))]
    expected = [choose(row[None], [alone[place // 3]], [paths[place]])[0] for place, row in enumerate(rows)]
    assert choose_at_once(rows, [together[place // 3] for place in range(len(rows))], paths) == expected


def test_flat_rows_whose_mass_is_in_many_tokens_are_limited_over_the_whole_vocabulary():
    rows, settings = logits(8, 5000, spread=0.3), {"temperature": 1.0, "top_p": 0.9}
    rows[3:] *= 30
    paths = [[]] * 8
    expected = [choose(row[None], [sampler(**settings)], [[]])[0] for row in rows]
    with torch.inference_mode(), PretendGPU() as gpu:
        assert choose_at_once(afar(rows), [sampler(CUDA, **settings)] * 8, paths) == expected
        assert gpu.counts["copies to the host"] == 2


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("depth", [0, 1, 9])
def test_verifying_a_draft_takes_one_copy_to_the_host_however_much_is_accepted(settings, depth):
    said, draft = logits(2 + 2 * depth), tree(depth)
    for place in range(depth):  # each row on the chain is sure of the next token there
        said[0 if place == 0 else 2 * place - 1, 20 * place] += 90
    (expected,) = verify(said[None], [draft], [sampler(**settings)], [frozenset()])
    with torch.inference_mode(), PretendGPU() as gpu:
        own = sampler(CUDA, **settings)
        gpu.reset()
        (found,) = verify(afar(said)[None], [draft], [own], [frozenset()])
        assert gpu.counts["copies to the host"] == 1
        assert gpu.counts["copies to the device"] <= 1 + ("no_repeat_ngram_size" in settings)
    assert found == expected
    assert len(found.nodes) == depth


def test_what_leads_to_a_pad_counts_no_pad_as_a_repeated_token():
    draft = DraftTree()
    draft.add(-3, draft.add(5, ROOT, 0.5), 0.5)
    with torch.inference_mode(), PretendGPU():
        found = verify(afar(logits(3))[None], [draft], [sampler(CUDA, repetition_penalty=1.4)], [frozenset()])
    assert found == verify(logits(3)[None], [draft], [sampler(repetition_penalty=1.4)], [frozenset()])


class Oracle(Autoregressive):
    """Drafts what is known to follow, with wrong tokens beside it."""

    name = "oracle"

    def __init__(self, answer, wants_top=0):
        self._answer = answer
        self.wants_top = wants_top

    def propose(self, context, rows):
        made, parent = DraftTree(), ROOT
        said = len(context.tokens) - len(PROMPT)
        for token in self._answer[said : said + rows // 3]:
            right = made.add(token, parent, 0.9)
            made.add((token + 1) % 400, parent, 0.1)
            parent = right
        return made


def run(model, requests, drafters, constraints=None, gpu=None):
    """Answers requests as one batch; their tokens, and what each step cost the host."""
    with torch.inference_mode():
        constraints = constraints or [None] * len(requests)
        sequences = [
            Sequence(request, model.decode, constraint)
            for request, constraint in zip(requests, constraints, strict=True)
        ]
        prefill = Prefill(model.forward, sequences, model.device)
        while not prefill.done:
            prefill.advance()
        batch, copies = Batch(model.forward, model.device, draft_nodes=64), []
        running, committed = list(range(len(sequences))), batch.join(prefill, drafters)
        while running:
            ended = [bool(sequences[number].accept(new)[1]) for number, new in zip(running, committed, strict=True)]
            running = [number for number, end in zip(running, ended, strict=True) if not end]
            if running:
                batch.keep([row for row, end in enumerate(ended) if not end])
                if gpu is not None:
                    gpu.reset()
                committed = batch.advance()
                copies.append(0 if gpu is None else gpu.counts["copies to the host"])
    return [sequence.generated for sequence in sequences], copies


@pytest.fixture(scope="module")
def models(tokenizer):
    """One model on the host, run by torch's operations, and on the pretended GPU."""
    host = prepare("local:llama", build("llama"), tokenizer, packed=False)
    return host, on_pretend_gpu(build("llama"), host)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_step_in_which_much_is_accepted_takes_one_copy_to_the_host(settings, models):
    host, far = models
    request = Generation(PROMPT, 40, seed=5, **settings)
    (expected,), _ = run(host, [request], [Autoregressive()])
    with PretendGPU() as gpu:
        (found,), copies = run(far, [request], [Oracle(expected)], gpu=gpu)
    assert found == expected
    assert len(copies) < 5, "tokens come many at a time"
    assert copies == [1] * len(copies)


@pytest.mark.parametrize(
    ("method", "name"),
    corners(
        sorted(set(DRAFTERS) - EQUIPPED),
        ["sampled", "top-p", "penalty, bias and limits"],
        of=lambda method, name: method in {"auto", "suffix"} and name == "penalty, bias and limits",
    ),
)
def test_every_method_and_seed_answers_as_on_a_cpu_with_two_copies_a_step_at_most(method, name, models):
    (host, far), settings = models, SETTINGS[name]
    for seed in range(2 if method == "auto" else 1):
        requests = [Generation(PROMPT, 30, seed=seed, **settings), Generation((7, 8, 9), 20, seed=seed, **settings)]
        expected, _ = run(host, requests, [Autoregressive(), Autoregressive()])
        with PretendGPU() as gpu:
            drafters = [DRAFTERS[method](DraftEquipment(cost=FREE)) for _ in requests]
            found, copies = run(far, requests, drafters, gpu=gpu)
        assert found == expected
        assert max(copies) <= 2, "one for the tokens, and one for the most probable ones that a drafter asks for"


class Curious(Oracle):
    """Keeps what it is told of the most probable tokens."""

    def __init__(self, answer):
        super().__init__(answer, wants_top=4)
        self.told = []

    def learn(self, context, outcome):
        self.told.append((len(context.tokens), outcome.top_tokens, outcome.top_probabilities))


def test_what_a_drafter_asks_for_comes_in_one_more_copy_and_is_the_same(models):
    host, far = models
    request = Generation(PROMPT, 12)
    (expected,), _ = run(host, [request], [Autoregressive()])
    here, there = Curious(expected), Curious(expected)
    run(host, [request], [here])
    with PretendGPU() as gpu:
        _, copies = run(far, [request], [there], gpu=gpu)
    assert copies == [2] * len(copies)
    for (length, ids, shares), (far_length, far_ids, far_shares) in zip(here.told, there.told, strict=True):
        assert (length, ids.tolist()) == (far_length, far_ids.tolist())
        np.testing.assert_allclose(shares, far_shares, rtol=1e-4)


def test_a_format_is_kept_to_beside_a_request_without_one(models, tokenizer):
    host, far = models
    requests = [Generation(PROMPT, 20, end_ids=frozenset({2}), temperature=0.8, seed=4), Generation(PROMPT, 20)]

    def constraints():
        return [Grammars(tokenizer).constraint("[a-f]{3,9}", frozenset({2})), None]

    expected, _ = run(host, requests, [Autoregressive(), Autoregressive()], constraints())
    with PretendGPU():
        drafters = [DRAFTERS["suffix"](DraftEquipment()) for _ in requests]
        found, _ = run(far, requests, drafters, constraints())
    assert found == expected
