"""What fails in one request ends, or slows, that request alone; the engine serves on."""

import re
from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, outcome, submit_together, tokens
from forwards import Watched
from wild_drafters import RandomTrees

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.generation import Generation
from stretto.values.errors import BackendError, InvalidRequestError, SettingsError


class Faulty(RandomTrees):
    """Works for some steps, and then does not."""

    name = "faulty"

    def __init__(self, fault, after=3):
        super().__init__()
        self.fault = fault
        self.left = after

    def propose(self, context, rows):
        self.left -= 1
        if self.left < 0 and self.fault == "propose":
            raise RuntimeError("no more ideas")
        tree = super().propose(context, rows)
        if self.left < 0 and self.fault == "token":
            tree = DraftTree()
            tree.add(10**9)
            self.tree = tree
        return tree

    def learn(self, context, outcome):
        if self.left < 0 and self.fault == "learn":
            raise KeyError("what was that")
        super().learn(context, outcome)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("propose", "faulty failed and drafts no more (RuntimeError: no more ideas)"),
        ("token", "faulty failed and drafts no more (ValueError: a drafted token is not below 400)"),
        ("learn", "faulty failed and drafts no more (KeyError: 'what was that')"),
    ],
)
def test_a_drafter_that_fails_is_dropped_with_a_warning_and_the_answer_is_the_same(fault, words, loaded, start):
    engine = start(loaded("llama"), drafters=DRAFTERS | {"faulty": lambda _: Faulty(fault)})
    alone = [tokens(engine.submit(Generation(prompt, 20))) for prompt in PROMPTS[:2]]
    bad, good = submit_together(
        engine,
        [Generation(PROMPTS[0], 20, decoding="faulty"), Generation(PROMPTS[1], 20, decoding="suffix")],
    )
    finished = [outcome(bad)[1], outcome(good)[1]]
    assert [bad.sequence.generated, good.sequence.generated] == alone
    assert finished[0].figures.warnings == (words,)
    assert finished[1].figures.warnings == ()


def test_memory_that_is_not_there_is_one_clear_error_each_and_the_engine_serves_on(loaded, start):
    model, greedy = loaded("llama"), [0]

    def forward(rows, cache, keep):
        greedy[0] -= 1
        if greedy[0] == 0:
            torch.empty(2**50)  # the allocator's own failure: on a CPU no OutOfMemoryError
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)))
    expected = tokens(engine.submit(Generation(PROMPTS[0], 12)))
    for forwards in (1, 4):  # while the prompts are read, and later
        greedy[0] = forwards
        for handle in submit_together(engine, [Generation(PROMPTS[0], 12), Generation(PROMPTS[0][::-1], 12)]):
            error = outcome(handle)[1].error
            assert isinstance(error, BackendError)
            assert error.transient
            assert "local:llama ran out of memory on cpu. Ask for fewer tokens" in str(error)
            assert re.search(r"What fits now.*: one request of [\d,]+ tokens, or 8 at once of [\d,]+\.", str(error))
        assert tokens(engine.submit(Generation(PROMPTS[0], 12))) == expected


def test_a_draft_model_that_runs_out_of_memory_leaves_its_request_undrafted(loaded, start):
    model = loaded("llama")

    def forward(rows, cache, keep):
        return torch.empty(2**50)

    engine = start(model, draft=replace(model, forward=Watched(model.forward, forward)))
    expected = tokens(engine.submit(Generation(PROMPTS[0], 12)))
    handle = engine.submit(Generation(PROMPTS[0], 12, decoding="draft_model"))
    _, finished = outcome(handle)
    assert handle.sequence.generated == expected
    assert "RuntimeError" in finished.figures.warnings[0]


def test_a_draft_model_with_another_tokenizer_is_refused_and_the_engine_serves_on(loaded, start, tokenizer):
    other = type(tokenizer)(tokenizer_object=tokenizer.backend_tokenizer.from_str(tokenizer.backend_tokenizer.to_str()))
    other.add_tokens(["<other>"])
    engine = start(loaded("llama"), draft=replace(loaded("qwen3"), tokenizer=other))
    for _ in range(2):
        with pytest.raises(SettingsError, match="'<other>' is 307 there and none here"):
            engine.submit(Generation(PROMPTS[0], 5, decoding="draft_model"))
    assert len(tokens(engine.submit(Generation(PROMPTS[0], 5)))) == 5


def test_a_drafter_that_cannot_even_be_made_leaves_its_own_request_undrafted_and_the_others_drafted(loaded, start):
    made = []

    def unmakable(_):
        made.append(1)
        if len(made) > 1:  # the first is made when the request is submitted, and shows that nothing is missing
            raise RuntimeError("no room left")
        return RandomTrees()

    engine = start(loaded("llama"), drafters=DRAFTERS | {"unmakable": unmakable})
    alone = [tokens(engine.submit(Generation(prompt, 20))) for prompt in PROMPTS[:2]]
    requests = [Generation(PROMPTS[0], 20, decoding="unmakable"), Generation(PROMPTS[1], 20, decoding="suffix")]
    bad, good = submit_together(engine, requests)
    finished = [outcome(bad)[1], outcome(good)[1]]
    assert [end.error for end in finished] == [None, None]
    assert [bad.sequence.generated, good.sequence.generated] == alone
    assert ["no room left" in warning for warning in finished[0].figures.warnings] == [True]
    assert finished[1].figures.warnings == ()


@pytest.mark.parametrize("token", [-1, 400])
def test_a_token_id_the_model_does_not_have_is_refused_before_it_could_harm_the_others(token, loaded, start):
    engine = start(loaded("llama"))
    with pytest.raises(InvalidRequestError, match=rf"The prompt has the token id {token}, .* are 0 to 399"):
        engine.submit(Generation((5, token, 6), 5))
    with pytest.raises(InvalidRequestError, match=f"logit_bias has the token id {token}"):
        engine.submit(Generation((5, 6), 5, logit_bias={7: 1.0, token: 1.0}))
    assert len(tokens(engine.submit(Generation((5, 6), 5, logit_bias={399: 1.0})))) == 5
