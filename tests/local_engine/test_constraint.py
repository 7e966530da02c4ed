"""Answers held to a JSON schema or a regular expression, under every way of drafting."""

import json
import re
from dataclasses import replace

import pytest
import torch
from asking import PROMPTS, outcome, submit_together, tokens
from wild_drafters import RandomTrees

from stretto.local_engine.choosing.constraint import ConstraintError, Grammars
from stretto.local_engine.choosing.sampling import Sampler
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import InvalidRequestError, StrettoError

END = frozenset({2})
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["items", "samples"]},
        "name": {"type": "string", "maxLength": 12},
        "counts": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
    },
    "required": ["kind", "name", "counts"],
    "additionalProperties": False,
}
SAMPLED = {"temperature": 1.0, "seed": 5}


@pytest.fixture(scope="module")
def pocket():
    return load_model(find_source("local:pocket"), dtype="float32", device="cpu")


def check(answer):
    value = json.loads(answer)
    assert list(value) == ["kind", "name", "counts"]
    assert value["kind"] in {"items", "samples"}
    assert len(value["name"]) <= 12
    assert len(value["counts"]) <= 3
    assert all(0 <= count <= 99 for count in value["counts"])


@pytest.mark.parametrize("settings", [{}, SAMPLED, SAMPLED | {"top_p": 0.9, "repetition_penalty": 1.2}])
def test_the_pocket_model_keeps_to_a_schema_and_the_method_changes_nothing(settings, pocket, start):
    ids = pocket.tokenizer("Plan the work as JSON: ")["input_ids"]
    engine = start(pocket, drafters=DRAFTERS | {"random": lambda _: RandomTrees()}, draft=pocket)
    requests = [
        Generation(tuple(ids), 80, pocket.ends, decoding=method, response_format=SCHEMA, **settings)
        for method in ("autoregressive", "suffix", "auto", "random", "draft_model")
    ]
    handles = submit_together(engine, requests)
    ends = [outcome(handle) for handle in handles]
    check(ends[0][0])
    assert [handle.sequence.generated for handle in handles] == [handles[0].sequence.generated] * len(handles)
    assert {end.reason for _, end in ends} == {"stop"}
    assert ends[-1][1].figures.tokens_per_step > 2  # a draft model draws from what the schema allows, too


@pytest.mark.parametrize("pattern", [r"(ab|cd){2,6}\.", r"[0-9]{3}-[0-9]{2}", r"(The|A) bicycle needs (oil|air)"])
@pytest.mark.parametrize("settings", [{}, SAMPLED])
def test_a_regular_expression_is_matched_by_the_whole_answer(pattern, settings, loaded, start):
    engine = start(loaded("llama"), drafters=DRAFTERS | {"random": lambda _: RandomTrees()})
    answers = {
        outcome(
            engine.submit(
                Generation(PROMPTS[0], 60, END, decoding=method, response_format=pattern, **settings),
            )
        )[0]
        for method in ("autoregressive", "prompt_lookup", "random")
    }
    assert len(answers) == 1
    assert re.fullmatch(pattern, answers.pop())


def test_others_in_the_batch_are_not_held_to_it(loaded, start):
    engine = start(loaded("llama"))
    free = Generation(PROMPTS[1], 20, END, decoding="suffix")
    alone = tokens(engine.submit(free))
    held, other = submit_together(engine, [Generation(PROMPTS[0], 20, END, response_format="[a-f]{5}"), free])
    assert re.fullmatch("[a-f]{5}", outcome(held)[0])
    assert tokens(other) == alone


def test_an_end_that_may_not_come_yet_does_not_come(loaded, start):
    engine = start(loaded("llama"))
    biased = Generation(PROMPTS[0], 40, END, logit_bias={2: 100.0}, response_format="[a-f]{5}")
    assert re.fullmatch("[a-f]{5}", outcome(engine.submit(biased))[0])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "objct"}, r"response_format=\{'type': 'objct'\} cannot be used: Invalid type: objct"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"type": {1, 2}}, "set is not JSON serializable"),
        ("(ab", r"'\(ab' cannot be used: unclosed group"),
        ("(?=a)b", "look-around, including look-ahead and look-behind, is not supported"),
        (17, "it is of the type int"),
    ],
)
def test_what_is_no_schema_or_expression_is_refused_and_the_engine_serves_on(given, words, loaded, start):
    engine = start(loaded("llama"))
    with pytest.raises(InvalidRequestError, match=words):
        engine.submit(Generation(PROMPTS[0], 20, END, response_format=given))
    assert tokens(engine.submit(Generation(PROMPTS[0], 5)))


def test_without_an_end_token_it_is_refused(loaded, start):
    with pytest.raises(InvalidRequestError, match="needs an end token"):
        start(loaded("llama")).submit(Generation(PROMPTS[0], 20, response_format="a+"))


def test_a_parser_that_fails_ends_its_own_request_only(loaded, start):
    engine = start(loaded("llama"))
    free = Generation(PROMPTS[1], 20, END)
    alone = tokens(engine.submit(free))
    with engine.announced():
        held = engine.submit(Generation(PROMPTS[0], 20, END, response_format="[a-f]{5}"))
        held.sequence.constraint._matcher.consume_tokens([0])  # a special token: the parser is at its wits' end
        other = engine.submit(free)
    error = outcome(held)[1].error
    assert isinstance(error, StrettoError)
    assert "response_format cannot be followed any further" in str(error)
    assert tokens(other) == alone


def test_a_draft_is_pruned_to_what_may_follow(tokenizer):
    ids = {letter: tokenizer.convert_tokens_to_ids(letter) for letter in "abc"}
    constraint = Grammars(tokenizer).constraint("ab?c", END)
    tree = DraftTree()
    first = tree.add(ids["a"])
    wrong = tree.add(ids["b"])
    tree.add(ids["c"], wrong)
    second = tree.add(ids["b"], first)
    early = tree.add(2, first)
    strange = tree.add(399, first)  # the model has more tokens than the tokenizer
    third = tree.add(ids["c"], second)
    last = tree.add(2, third)
    tree.add(ids["c"], last)
    legal = constraint.legal(tree)
    assert [node for node in range(len(tree)) if legal[node]] == [first, second, third, last]
    assert {early, strange}.isdisjoint((first, second, third, last))
    smaller, places = tree.only([first, second, third, last])
    assert smaller.parents == [-1, 0, 1, 2]
    assert places == [0, -1, -1, 1, -1, -1, 2, 3, -1]
    logits = torch.zeros(400)
    constraint.restrict(logits, [ids["a"], ids["b"]])
    assert (logits == 0).nonzero().flatten().tolist() == [ids["c"]]
    constraint.restrict(logits.zero_(), [])
    assert ids["a"] in (logits == 0).nonzero().flatten().tolist()


def test_ranking_behind_a_path_that_may_not_be_ends_no_answer_and_leaves_the_parser_where_it_was(tokenizer):
    ids = {letter: tokenizer.convert_tokens_to_ids(letter) for letter in "abc"}
    constraint = Grammars(tokenizer).constraint("ab?c", END)
    sampler = Sampler(Generation(PROMPTS[0], 5, END), torch.device("cpu"), constraint)
    sampler.commit([ids["a"]])
    with pytest.raises(ConstraintError):
        sampler.rank(torch.zeros(400), [ids["a"], ids["a"]])
    assert sampler.failure is None
    assert sorted(sampler.rank(torch.zeros(400), [], 2)) == sorted([ids["b"], ids["c"]])
    assert sampler.rank(torch.zeros(400), [ids["b"]]) == [ids["c"]]


class Reckless(RandomTrees):
    """Asks what would be chosen behind a token that may not stand there."""

    name = "reckless"

    def propose(self, context, rows):
        context.rank(torch.zeros(context.vocabulary), [399], 1)  # the tokenizer does not know it
        return super().propose(context, rows)


class Unsure(RandomTrees):
    """Its drafts bring the parser to its wits' end."""

    name = "unsure"

    def __init__(self, constraint):
        super().__init__()
        self.constraint = constraint

    def propose(self, context, rows):
        self.constraint()._matcher.consume_tokens([0])
        self.tree, self.rows, self.before = DraftTree(), rows, len(context.tokens)
        self.tree.add(50)
        return self.tree


@pytest.mark.parametrize("fault", ["reckless", "unsure"])
def test_a_draft_the_parser_cannot_follow_costs_the_draft_and_not_the_answer(fault, loaded, start):
    held = []
    drafters = {"reckless": lambda _: Reckless(), "unsure": lambda _: Unsure(lambda: held[-1])}
    engine = start(loaded("llama"), drafters=DRAFTERS | drafters)
    request = Generation(PROMPTS[0], 20, END, response_format="[a-f]{5}")
    expected = outcome(engine.submit(request))[0]
    held.append(engine.constraint("[a-f]{5}", END))
    text, finished = outcome(engine.submit(replace(request, decoding=fault), constraint=held[0]))
    assert (text, finished.reason) == (expected, "stop")
    assert "ConstraintError" in finished.figures.warnings[0]
