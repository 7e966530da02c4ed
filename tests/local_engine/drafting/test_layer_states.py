"""Hidden states that forwards hand out, and how they reach a drafter."""

from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, submit_together
from one_batch import run
from recording import Recordings
from test_forward import packed
from tiny_models import build

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import LAST, LayerStates, Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving import prefill
from stretto.local_engine.serving.sequence import Sequence

LAYERS = (0, 2, LAST)
TEXTS = [[(7 * place + 3) % 390 + 5 for place in range(length)] for length in (12, 7)]
FORWARDS = {
    "transformers": TransformersForward,
    "alone": lambda model: TransformersForward(model, alone=True),
    "lean": LlamaForward,
    "compiled": packed,
}


def expected(model, tokens):
    """What transformers says of a text that it reads at once # [tokens, layers * hidden]"""
    said = model(input_ids=torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([said[layer][0] for layer in LAYERS], -1)


def read(forward, texts, cache):
    for number, text in enumerate(texts):  # one after the other, so that the rows of the tree are all that is compared
        own, ids = KeyValueCache(1), torch.tensor([text[:-1]])
        wanted = LayerStates(LAYERS)
        forward(Rows(ids, torch.arange(len(text) - 1)[None], len(text) - 1, states=wanted), own, torch.tensor([0]))
        cache.join(own)
        yield number, wanted.of(0, slice(None), LAYERS)


@pytest.mark.parametrize("kind", FORWARDS)
def test_they_are_those_of_transformers_for_a_prompt_and_for_each_row_of_a_tree(kind):
    model, references = build("qwen3").requires_grad_(False), build("qwen3")
    tree, chain = DraftTree(), DraftTree()
    chain.add_path((11, 12, 13), [0.5] * 3)
    tree.add_path((21, 22), [0.5] * 2)
    tree.add_path((23,), [0.5], 0)
    forward = FORWARDS[kind](model)
    trees = [chain, chain if kind == "alone" else tree]
    paths = [[(11, 12, 13)], [(11, 12, 13)] if kind == "alone" else [(21, 22), (21, 23)]]
    with torch.inference_mode():
        cache = KeyValueCache(0)
        for number, states in read(forward, TEXTS, cache):
            torch.testing.assert_close(states, expected(references, TEXTS[number][:-1]), rtol=1e-4, atol=1e-4)
        wanted = LayerStates(LAYERS)
        rows = replace(flatten(TEXTS, trees, torch.device("cpu")), states=wanted)
        forward(rows, cache, torch.arange(rows.tokens.shape[1]))
        for number, drafted in enumerate(paths):
            own = wanted.of(number, slice(0, 1 + len(trees[number])), LAYERS)
            for path in drafted:
                nodes, parent = [], -1
                for token in path:
                    parent = trees[number].child(parent, token)
                    nodes.append(parent)
                reference = expected(references, [*TEXTS[number], *path])[-len(path) - 1 :]
                found = own[[0, *(node + 1 for node in nodes)]]
                torch.testing.assert_close(found, reference, rtol=1e-4, atol=1e-4)


class Listening(Autoregressive):
    """Drafts what may be right, and keeps the hidden states that it is given with the tokens they stand at."""

    name = "listening"
    wants_states = LAYERS

    def __init__(self, follow=None):
        self.follow, self.heard, self.partly = follow or {}, [], False

    def propose(self, context, rows):  # noqa: ARG002 - it drafts as much as it likes
        tree = DraftTree()
        tree.add_path(self.follow.get(len(context.tokens), ()), [0.9] * 9)
        tree.add_path((7, 8), [0.1] * 2)
        return tree

    def learn(self, context, outcome):
        if outcome.prompt_states is not None:
            self.partly = len(outcome.prompt_states) < context.prompt_length - 1
            self.heard.extend(outcome.prompt_states)
        self.heard.extend(outcome.states[[0, *(outcome.rows[node] for node in outcome.accepted)]])


def test_a_drafter_is_given_those_of_the_prompt_and_of_each_committed_row(loaded):
    """In a batch with one that wants none, with drafts of which some are accepted."""
    model, request = loaded("llama"), Generation(tuple(TEXTS[0]), 20)
    plain = run(model, [request], [Autoregressive()])[0][0]
    follow = {12 + place: plain[place : place + 3] for place in (2, 7, 12)}
    listening = Listening(follow)
    tokens, steps = run(model, [request, Generation(tuple(TEXTS[1]), 20)], [listening, Autoregressive()])
    assert tokens[0] == plain
    assert steps[0] == 19 - 9
    with torch.inference_mode():
        reference = expected(build("llama"), [*TEXTS[0], *plain[:-1]])
        torch.testing.assert_close(torch.stack(listening.heard), reference, rtol=1e-3, atol=1e-3)


def test_recorded_steps_hand_them_out_too(tokenizer):
    plain, recordings = prepare("local:llama", build("llama"), tokenizer, packed=False), Recordings()
    model = replace(plain, forward=GraphedForward(plain.forward, recordings, shortest=64))
    listening = Listening()
    tokens, _ = run(model, [Generation(tuple(TEXTS[0]), 20)], [listening])
    assert recordings.repeated > 10
    with torch.inference_mode():
        reference = expected(build("llama"), [*TEXTS[0], *tokens[0][:-1]])
        torch.testing.assert_close(torch.stack(listening.heard), reference, rtol=1e-3, atol=1e-3)


def test_of_a_prompt_whose_beginning_is_known_only_what_was_read_is_given(loaded, start):
    made = []

    def listening(_):
        made.append(Listening())
        return made[-1]

    engine = start(loaded("llama"), prefix_cache_bytes=2**24, drafters={**DRAFTERS, "listening": listening})
    first, second = PROMPTS[0], (*PROMPTS[0], 5, 6, 7)
    requests = [Generation(prompt, 6, decoding="listening") for prompt in (first, second)]
    given = [list(engine.submit(request))[-1] for request in requests]
    assert [end.error for end in given] == [None, None]
    heard = [drafter for drafter in made if drafter.heard]
    assert [drafter.partly for drafter in heard] == [False, True]
    with torch.inference_mode():
        for drafter, request in zip(heard, requests, strict=True):
            handle = submit_together(engine, [Generation(request.prompt, 6)])[0]
            list(handle)
            text = [*request.prompt, *handle.sequence.generated[:-1]]
            reference = expected(build("llama"), text)[-len(drafter.heard) :]
            torch.testing.assert_close(torch.stack(drafter.heard), reference, rtol=1e-3, atol=1e-3)


def test_of_a_long_prompt_the_last_ones_are_kept(loaded, monkeypatch):
    monkeypatch.setattr(prefill, "_STATES", 16)
    text = tuple((7 * place + 3) % 390 + 5 for place in range(40))
    whole, model = expected(build("llama"), text), loaded("llama")
    with torch.inference_mode():
        reading = prefill.Prefill(
            model.forward, [Sequence(Generation(text, 4), model.decode)], model.device, tokens=8, layers=[LAYERS]
        )
        while not reading.done:
            reading.advance()
            assert reading.states[0] is None or len(reading.states[0]) < 16 + 16
    torch.testing.assert_close(reading.states[0], whole[-len(reading.states[0]) :], rtol=1e-4, atol=1e-4)
    assert len(reading.states[0]) >= 16
