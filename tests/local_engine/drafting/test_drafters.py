"""What holds for every drafter, on targets without a model; and what each is good at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import became, generate, looping, markov, noise, plain, prose

from stretto.local_engine.draft_tree import ROOT
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED, DraftEquipment
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext, Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.research.lookahead.lookahead import Jacobi, NGramPool
from stretto.values.errors import SettingsError

METHODS = sorted(set(DRAFTERS) - EQUIPPED)
FREE = DraftEquipment(StepCost({1: 10.0, 128: 10.1}))
TARGETS = {"markov": markov, "looping": looping, "prose": prose, "noise": noise}


def assert_well_formed(tree, rows):
    assert len(tree) <= (rows if tree.step_cost is None else 4 * rows)  # such a tree is cut by what its nodes are worth
    siblings = set()
    for node, (token, parent, survival) in enumerate(zip(tree.tokens, tree.parents, tree.survival, strict=True)):
        assert ROOT <= parent < node
        assert (parent, token) not in siblings
        siblings.add((parent, token))
        assert 0 <= survival <= (1 if parent == ROOT else tree.survival[parent])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_draft_never_changes_the_output_and_is_well_formed(method, target):
    target = TARGETS[target]()
    prompt = plain(target, [1, 2, 3], 60)
    for rows, limit in ((32, 32), (24, 7), (1, 1), (0, 0)):
        run = generate(DRAFTERS[method](FREE), target, prompt, 40, rows=rows, limit=limit)
        assert run.text == plain(target, prompt, len(run.text) - len(prompt))
        for tree in run.trees:
            assert_well_formed(tree, rows)


@pytest.mark.parametrize("method", METHODS)
def test_a_prompt_of_one_token_is_enough(method):
    run = generate(DRAFTERS[method](FREE), looping(), [5], 40)
    assert run.text == plain(looping(), [5], len(run.text) - 1)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_request_gets_the_same_drafts(method, monkeypatch):
    monkeypatch.setattr(StepCost, "drafted", lambda _, __: None)  # `auto` goes by how long it takes, too
    prompt = plain(prose(), [], 60)
    first, second = (generate(DRAFTERS[method](DraftEquipment()), prose(), prompt, 60).trees for _ in range(2))
    assert first == second


@pytest.mark.parametrize("method", METHODS)
def test_proposing_twice_changes_nothing(method):
    drafter, context = DRAFTERS[method](DraftEquipment()), DraftContext(plain(prose(), [], 60), 60, 400)
    assert isinstance(drafter, Drafter)
    generate(drafter, prose(), context.tokens, 20)
    context.tokens.extend(plain(prose(), context.tokens, 30)[60:])
    first, second = drafter.propose(context, 16), drafter.propose(context, 16)
    assert method == "auto" or first == second


@pytest.mark.parametrize(
    ("method", "least"),
    [("auto", 15), ("suffix", 20), ("prompt_lookup", 10), ("lookahead", 3)],
)
def test_a_text_that_repeats_itself_is_foreseen(method, least):
    prompt = plain(looping(), [], 60)
    assert generate(DRAFTERS[method](DraftEquipment()), looping(), prompt, 300).tokens_per_step >= least


@pytest.mark.parametrize(
    ("method", "least"), [("auto", 1.5), ("suffix", 1.7), ("prompt_lookup", 1.6), ("lookahead", 1.5)]
)
def test_phrases_are_foreseen_in_any_order(method, least):
    prompt = plain(prose(), [], 200)
    assert generate(DRAFTERS[method](DraftEquipment()), prose(), prompt, 300).tokens_per_step >= least


def test_a_draft_model_has_to_be_named():
    with pytest.raises(SettingsError, match="needs a draft model"):
        DRAFTERS["draft_model"](DraftEquipment())


# Jacobi


def test_jacobi_solves_in_one_step_what_does_not_depend_on_the_guesses():
    def target(text):
        return [len(text) % 40, *range(50, 57)]

    run = generate(Jacobi(window=8), target, [0], 90)
    assert [len(outcome.path) for outcome in run.outcomes[:3]] == [1, 9, 1]


def test_jacobi_corrects_every_guess_by_what_stands_before_it():
    drafter, context = Jacobi(window=3), DraftContext([1, 2], 2, 100)
    tree = drafter.propose(context, 3)
    assert tree.tokens == [2, 2, 2]
    context.tokens.append(7)
    drafter.learn(context, became([1, 2, 3], [[7], [8], [9], [10]], [[1.0]] * 4, [7], []))
    assert drafter.propose(context, 3).tokens == [8, 9, 10]
    context.tokens.extend([8, 5])
    drafter.learn(context, became([1, 2, 3], [[8], [5], [6], [4]], [[1.0]] * 4, [8, 5], [0]))
    assert drafter.propose(context, 3).tokens == [6, 4, 4]


# Prompt lookup


def test_prompt_lookup_copies_what_followed_the_last_occurrence_of_the_longest_n_gram():
    text = [1, 2, 3, 10, 4, 2, 3, 20, 30, 1, 2, 3]
    assert PromptLookup().propose(DraftContext(text, 12, 50), 3).tokens == [10, 4, 2]
    assert PromptLookup(longest=2).propose(DraftContext(text, 12, 50), 3).tokens == [20, 30, 1]
    assert len(PromptLookup().propose(DraftContext([1, 2, 3, 4], 4, 50), 8)) == 0


# Suffix


def test_the_suffix_tree_branches_where_the_text_went_on_in_several_ways():
    text = [5, 6, 7, 1, 5, 6, 8, 2, 5, 6, 7, 3, 5, 6]
    tree = Suffix(shortest=2).propose(DraftContext(text, len(text), 50), 12)
    seven, eight = tree.child(ROOT, 7), tree.child(ROOT, 8)
    assert tree.survival[seven] == pytest.approx(2 / 3 * 2 / 3)  # a match of 2 holds with 2/3; 2 of 3 times 7 came
    assert tree.survival[eight] == pytest.approx(2 / 3 * 1 / 3)
    assert {tree.tokens[node] for node, parent in enumerate(tree.parents) if parent == seven} == {1, 3}


def test_a_loop_is_drafted_beyond_the_end_of_the_text():
    text = [1, 2, 3] * 4
    tree = Suffix().propose(DraftContext(text, len(text), 50), 9)
    assert tree.tokens == [1, 2, 3] * 3


# The pool


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 2))), max_size=60),
)
def test_the_pool_forgets_what_was_added_least_recently(per_key, added):
    pool = NGramPool(3, per_key)
    naive = []
    for key, continuation in added:
        pool.add(key, continuation)
        naive = [(key, continuation), *(entry for entry in naive if entry != (key, continuation))]
    for key in range(4):
        assert pool.get(key) == [continuation for own, continuation in naive if own == key][:per_key]


@given(st.lists(st.integers(0, 5), max_size=40), st.lists(st.integers(0, 40), max_size=5), st.integers(2, 5))
def test_the_pool_holds_the_n_grams_of_the_text_however_it_arrives(text, cuts, size):
    pool, whole = NGramPool(size, 100), NGramPool(size, 100)
    for cut in sorted(cuts):
        pool.read_on(text[:cut])
    pool.read_on(text)
    whole.read_on(text)
    grams = {tuple(text[start : start + size]) for start in range(len(text) - size + 1)}
    assert {(key, *rest) for key in range(6) for rest in pool.get(key)} == grams
    assert all(pool.get(key) == whole.get(key) for key in range(6))
