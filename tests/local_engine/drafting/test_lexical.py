"""Lexical units as drafts: what the drafter makes of what the [PAD]s said."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from lexical_adapters import SMALL, adapted, random_adapter
from simulated import became
from tiny_models import build

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.adapters.adapter_files import fingerprint
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.research.lexical import FILE, LexicalOptions
from stretto.local_engine.research.lexical.lexical_drafter import Lexical, UnitExperience
from stretto.local_engine.research.lexical.pads import write_adapter
from stretto.values.errors import SettingsError

CONTEXT = DraftContext([5, 6, 7], 2, 400)
PADS = [-1, -2, -3]
FREE = StepCost({1: 10.0, 64: 10.0})
CHEAP = StepCost({1: 10.0, 64: 30.0})
DEAR = StepCost({1: 10.0, 64: 640.0})


def say(drafter, tree, said, path, accepted=()):
    """Lets every row of the draft say what ``said`` gives for its node: a token, its probability, and a worse one."""
    if not drafter.wants_top:
        return drafter.learn(CONTEXT, became([-1] * len(tree), [], [], path, accepted))
    tops = [said.get(node, (0, 0.5)) for node in range(ROOT, len(tree))]
    worse = range(399, 400 - drafter.wants_top, -1)
    tokens = [(token, *worse) for token, _ in tops]
    probabilities = [(chance, *(0.01 for _ in worse)) for _, chance in tops]
    return drafter.learn(CONTEXT, became(range(1, len(tree) + 1), tokens, probabilities, path, accepted))


def pads_of(tree, node):
    """The [PAD]s behind a node, in order."""
    found = []
    while (pad := tree.child(node, -1 - len(found))) is not None:
        found.append(pad)
        node = pad
    return found


def saying(tree, *predictions):
    """What the root's [PAD]s say, if they say these: a token and its probability each."""
    return dict(zip(pads_of(tree, ROOT), predictions, strict=False))


def begun(cost, **options):
    """A drafter at its first draft; verified, the step before that has none."""
    drafter = Lexical(3, cost, **options)
    if "alpha" not in options:
        assert not len(drafter.propose(CONTEXT, 32))
        say(drafter, DraftTree(), {}, [7])
    return drafter, drafter.propose(CONTEXT, 32)


def started(cost=FREE, **options):
    """A drafter whose first [PAD]s have said 11, 12, 13 behind the root."""
    drafter, tree = begun(cost, **options)
    say(drafter, tree, saying(tree, (11, 0.97), (12, 0.96), (13, 0.55)), [10])
    return drafter


def test_the_first_draft_has_pads_only():
    _, tree = begun(FREE)
    assert (tree.tokens, tree.parents) == (PADS, [ROOT, 0, 1])
    assert set(tree.sources) == {"[PAD]"}


def test_what_the_pads_said_is_the_next_draft_and_has_pads_where_it_may_end():
    tree = started().propose(CONTEXT, 32)
    assert tree.tokens[:3] == [11, 12, 13]
    assert tree.parents[:3] == [ROOT, 0, 1]
    assert all(pads_of(tree, node) for node in (ROOT, 0, 1, 2))
    assert tree.survival == sorted(tree.survival[: tree.tokens.index(-1)], reverse=True) + [
        1.0 if owner == ROOT else tree.survival[owner]
        for owner in range(ROOT, tree.tokens.index(-1))
        for _ in pads_of(tree, owner)
    ]


def test_the_dearer_rows_are_the_fewer_there_are():
    sizes = [len(started(cost).propose(CONTEXT, 32)) for cost in (FREE, CHEAP, DEAR)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2]
    hung = started(CHEAP).propose(CONTEXT, 32)
    assert len(pads_of(hung, 2)) >= len(pads_of(hung, 0))  # most likely the next step begins behind all of it


def test_where_rows_are_too_dear_there_are_none_and_nothing_is_looked_up():
    drafter, tree = begun(DEAR)
    assert (len(tree), drafter.wants_top) == (0, 0)
    say(drafter, tree, {}, [7])


def test_pads_that_give_nothing_are_left_out_for_a_while():
    drafter, drawn = Lexical(3, StepCost({1: 10.0, 64: 100.0})), []
    for _ in range(400):
        tree = drafter.propose(CONTEXT, 32)
        drawn.append(-1 in tree.tokens)
        say(drafter, tree, saying(tree, (11, 0.6), (12, 0.6), (13, 0.6)), [77])
    assert drawn[1]
    assert not all(drawn)
    assert any(drawn[drawn.index(False, 1) :])  # and tried again
    assert sum(drawn[200:]) < 100


def disappointed(experience, steps, **options):
    """Which steps of one request had a draft, if what the [PAD]s say never comes true; rows are not free."""
    cost = StepCost({1: 10.0, 64: 30.0})
    drafter, drawn = Lexical(3, cost, experience=experience, **options), []
    for _ in range(steps):
        tree = drafter.propose(CONTEXT, 32)
        drawn.append(len(tree) > 0)
        say(drafter, tree, saying(tree, (11, 0.97), (12, 0.97), (13, 0.97)), [77])
        cost.observe(1 + len(tree), cost(1 + len(tree)))
    return drawn


def test_where_drafts_gained_nothing_later_requests_try_once_and_rest():
    fresh, known = (UnitExperience(), UnitExperience()), (UnitExperience(), UnitExperience())
    disappointed(known, 400)
    assert sum(disappointed(known, 60)) < sum(disappointed(fresh, 60))
    assert any(disappointed(known, 3))


def test_a_request_of_a_batch_does_not_end_the_rest_of_the_others():
    batch, known = StepCost({1: 10.0, 64: 30.0}), (UnitExperience(), UnitExperience())
    batch.begin(2)
    known[1].gains.note(-10.0, 2)
    drafter = Lexical(3, batch, experience=known)
    assert not any(len(drafter.propose(CONTEXT, 32)) for _ in range(30))
    assert known[1].gains.rests(2, 0.0)
    assert known[0].gains == UnitExperience().gains  # those of sampled answers


def test_later_requests_believe_what_failed_less():
    known = UnitExperience(), UnitExperience()
    disappointed(known, 40)
    believed = []
    for experience in (known, None):
        drafter = Lexical(3, FREE, experience=experience)
        for path in ([7], [10]):
            tree = drafter.propose(CONTEXT, 32)
            say(drafter, tree, saying(tree, (11, 0.97), (12, 0.96), (13, 0.55)), path)
        tree = drafter.propose(CONTEXT, 32)
        believed.append(
            max((own for token, own in zip(tree.tokens, tree.survival, strict=True) if token == 11), default=0)
        )
    assert believed[0] < believed[1]


def test_a_draft_of_which_nothing_was_evaluated_is_held_against_nobody():
    experience = UnitExperience(), UnitExperience()
    drafter = Lexical(3, CHEAP, experience=experience)
    for path in ([7], [10]):
        tree = drafter.propose(CONTEXT, 32)
        say(drafter, tree, saying(tree, (11, 0.97), (12, 0.96), (13, 0.55)), path)
    tree = drafter.propose(CONTEXT, 32)
    guesses = tree.tokens.index(-1)
    said = dict.fromkeys(pads_of(tree, guesses - 1)[:1], (11, 0.97))
    say(drafter, tree, said, [*tree.tokens[:guesses], 10], range(guesses))
    tree, before = drafter.propose(CONTEXT, 32), deepcopy(experience[1].gains)
    assert tree.tokens[0] == 11
    drafter.learn(CONTEXT, became([-1] * len(tree), [(0, 1, 2, 3)], [(0.5, 0.1, 0.1, 0.1)], [10], []))
    drafter.propose(CONTEXT, 32)
    assert experience[1].gains == before


def test_it_goes_by_what_steps_took_not_by_what_rows_cost():
    cost = StepCost({1: 10.0, 64: 10.0})
    drafter, drawn = Lexical(3, cost, experience=(UnitExperience(), UnitExperience())), []
    for _ in range(60):
        tree = drafter.propose(CONTEXT, 32)
        drawn.append(len(tree) > 0)
        say(drafter, tree, saying(tree, (11, 0.97), (12, 0.97), (13, 0.97)), [77])
        cost.observe(1 + len(tree), 30.0 if len(tree) else 10.0)
    assert any(drawn[:20])
    assert not any(drawn[30:])


def test_where_drafts_gain_it_never_rests():
    cost = StepCost({1: 10.0, 64: 30.0})
    drafter = started(cost)
    for step in range(3, 64):
        tree = drafter.propose(CONTEXT, 32)
        assert tree.tokens[0] == 11, step
        right = tree.tokens[: tree.tokens.index(-1)]
        said = dict.fromkeys(pads_of(tree, len(right) - 1)[:1], (11, 0.97))
        say(drafter, tree, said, [*right, 10], range(len(right)))
        cost.observe(1 + len(tree), cost(1 + len(tree)))


def test_nothing_is_learned_from_what_is_taken_unverified():
    experience = UnitExperience(), UnitExperience()
    disappointed(experience, 20, alpha=0.5)
    assert all(not known.counters[0].any() for known in experience)
    assert experience[1].gains == UnitExperience().gains


def test_a_node_without_pads_goes_by_those_above_it():
    """The root's [PAD]s spoke of the place after the first guess too."""
    drafter = started()
    tree = drafter.propose(CONTEXT, 32)
    first, *others = pads_of(tree, ROOT)
    said = {first: (21, 0.9)} | dict(zip(others, [(22, 0.9), (23, 0.9)], strict=True))
    rows = [-1 if node in pads_of(tree, 0) else node + 1 for node in range(len(tree))]  # there was no room for these
    assert tree.tokens[0] == 11
    tops = [said.get(node, (0, 0.5)) for node in range(ROOT, len(tree))]
    tokens, probabilities = [(token, 397, 398, 399) for token, _ in tops], [(chance, 0, 0, 0) for _, chance in tops]
    drafter.learn(CONTEXT, became(rows, tokens, probabilities, [11, 50], [0]))
    assert drafter.propose(CONTEXT, 32).tokens[:2] == [22, 23]


def test_predictions_that_fail_are_believed_less():
    drafter = started()
    first = drafter.propose(CONTEXT, 32).survival[0]
    for _ in range(3):
        tree = drafter.propose(CONTEXT, 32)
        say(drafter, tree, saying(tree, (11, 0.97), (12, 0.97), (13, 0.97)), [77])
    tree = drafter.propose(CONTEXT, 32)
    assert 0 < tree.survival[tree.tokens.index(11)] < first / 2


def test_a_node_with_fewer_pads_than_the_root_learns_the_rest_from_those():
    drafter = started()
    tree = drafter.propose(CONTEXT, 32)
    said = dict(zip(pads_of(tree, ROOT), [(21, 0.9), (22, 0.9), (23, 0.9)], strict=True))
    said[pads_of(tree, 0)[0]] = (32, 0.9)
    rows = [-1 if node in pads_of(tree, 0)[1:] else node + 1 for node in range(len(tree))]
    tops = [said.get(node, (0, 0.5)) for node in range(ROOT, len(tree))]
    tokens, probabilities = [(token, 397, 398, 399) for token, _ in tops], [(chance, 0, 0, 0) for _, chance in tops]
    drafter.learn(CONTEXT, became(rows, tokens, probabilities, [11, 50], [0]))
    assert drafter.propose(CONTEXT, 32).tokens[:2] == [32, 23]


@pytest.mark.parametrize("options", [{}, {"alpha": 0.9}])
def test_what_was_predicted_before_a_step_without_rows_is_not_drafted_after_it(options):
    drafter = started(**options)
    say(drafter, drafter.propose(CONTEXT, 0), {}, [50])
    assert drafter.propose(CONTEXT, 32).tokens == PADS


def test_lossy_draws_the_same_whatever_rows_cost():
    trees = [started(cost, alpha=0.9).propose(CONTEXT, 32) for cost in (FREE, DEAR)]
    assert trees[0] == trees[1]


def test_a_vocabulary_smaller_than_the_candidates_is_drafted_for():
    context, drafter = DraftContext([1, 2], 2, 3), Lexical(1, FREE)
    for _ in range(3):
        tree = drafter.propose(context, 8)
        tops = (
            [(2, 1, 0)[: drafter.wants_top]] * (1 + len(tree)),
            [(0.9, 0.05, 0.05)[: drafter.wants_top]] * (1 + len(tree)),
        )
        drafter.learn(context, became(range(1, len(tree) + 1), *tops, [2], []))
    assert 2 in drafter.propose(context, 8).tokens


def test_no_more_rows_than_asked_for():
    for rows in range(12):
        assert len(started().propose(CONTEXT, rows)) <= rows
        assert len(started(alpha=0.9).propose(CONTEXT, rows)) <= rows


def test_lossy_takes_what_is_above_alpha_as_it_is():
    tree = started(alpha=0.9).propose(CONTEXT, 32)
    assert tree.trusted == {ROOT: 0, 0: 1}
    assert tree.tokens == [11, 12, *PADS]
    assert tree.parents[2:] == [1, 2, 3]
    assert not started(alpha=0.98).propose(CONTEXT, 32).trusted


@pytest.mark.parametrize("bad", [{"tokens": 1}, {"alpha": 0.0}, {"alpha": 1.0}])
def test_options_that_make_no_sense_are_refused(bad):
    with pytest.raises(SettingsError, match="cannot be used"):
        LexicalOptions(**bad)


def test_only_the_lossy_form_takes_what_was_not_verified(monkeypatch):
    monkeypatch.setattr("stretto.local_engine.research.lexical.pads.attach", lambda _: 3)
    equipment = DraftEquipment(model=SimpleNamespace(device=torch.device("cpu")))
    names = "lexical", "lexical_lossy"
    assert tuple(DRAFTERS[name](equipment).name for name in names) == names


@pytest.mark.thorough
def test_longer_units_than_the_adapter_says_are_refused(loaded):
    model = adapted(loaded("llama"))
    with pytest.raises(SettingsError, match="was trained for 4"):
        DRAFTERS["lexical"](DraftEquipment(model=model, options={"lexical": {"tokens": 5}}))
    equipment = DraftEquipment(model=model, options={name: {"tokens": 2} for name in ("lexical", "lexical_lossy")})
    assert not len(DRAFTERS["lexical"](equipment).propose(CONTEXT, 32))
    assert DRAFTERS["lexical_lossy"](equipment).propose(CONTEXT, 32).tokens == [-1]


def test_a_model_of_another_family_is_refused(loaded):
    with pytest.raises(SettingsError, match="gemma2 is run by that of transformers"):
        DRAFTERS["lexical"](DraftEquipment(model=loaded("gemma2")))
    with pytest.raises(SettingsError, match="needs a model with an adapter"):
        DRAFTERS["lexical"](DraftEquipment())


@pytest.mark.thorough  # it compiles a forward of its own
def test_an_adapter_belongs_to_the_weights_beside_it(tokenizer, tmp_path):
    inner = build("llama")
    inner.save_pretrained(tmp_path)
    model = replace(prepare("local:./folder", inner, tokenizer), folder=tmp_path)
    with pytest.raises(
        SettingsError, match=r"is missing. Train one .*: python -m recipes.lexical.train --model local:./folder"
    ):
        DRAFTERS["lexical"](DraftEquipment(model=model))
    write_adapter(tmp_path / FILE, random_adapter(model), "0" * 64)
    with pytest.raises(SettingsError, match=r"trained on other weights .*\(SHA-256 000000000000\).*--fresh"):
        DRAFTERS["lexical_lossy"](DraftEquipment(model=model))
    (tmp_path / FILE).write_bytes(b"nothing")
    with pytest.raises(SettingsError, match="is no adapter"):
        DRAFTERS["lexical"](DraftEquipment(model=model))
    adapter = random_adapter(model)
    write_adapter(tmp_path / FILE, adapter, fingerprint(tmp_path))
    assert DRAFTERS["lexical"](DraftEquipment(model=model)).name == "lexical"
    for name, tensor in model.forward.adapter.tensors().items():
        assert torch.equal(tensor, adapter.tensors()[name].bfloat16().float())
    assert len(model.forward.adapter.places) == SMALL.tokens - 1


def test_a_model_from_the_hub_has_no_place_for_an_adapter(tokenizer):
    model = prepare("local:owner/model", build("llama"), tokenizer)
    with pytest.raises(SettingsError, match="Save the model to one"):
        DRAFTERS["lexical"](DraftEquipment(model=model))
