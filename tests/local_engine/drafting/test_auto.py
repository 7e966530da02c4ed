import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import became, following, generate, looping, markov, noise, plain, prose, verify

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.calibration import Calibration, Experience
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix

DEAR = StepCost({1: 10.0, 64: 640.0})
USUAL = StepCost({1: 10.0, 8: 11.4, 16: 13.3, 32: 21.0, 64: 26.0})
FREE = StepCost({1: 10.0, 128: 10.1})


class Counted(StepCost):
    """Counts how often a draft was looked for, which always takes as long: else the machine's load would decide."""

    looks = 0

    def drafted(self, _):
        self.looks += 1
        super().drafted(0.5)


class Quick(StepCost):
    """Looking for a draft always takes as long."""

    def drafted(self, _):
        super().drafted(0.05)


def cost_of(run, cost, drafting_ms=0.2):
    """Milliseconds for each token."""
    steps = (
        cost(len(outcome.top_tokens)) + drafting_ms * bool(tree)
        for outcome, tree in zip(run.outcomes, run.trees, strict=True)
    )
    return sum(steps) / sum(len(outcome.path) for outcome in run.outcomes)


@pytest.mark.parametrize("cost", [DEAR, USUAL, FREE])
@pytest.mark.parametrize("target", [markov, looping, prose, noise])
def test_it_is_never_much_slower_than_no_draft(target, cost):
    prompt = plain(target(), [1, 2, 3], 50)
    run = generate(Auto(cost), target(), prompt, 300, rows=64)
    assert cost_of(run, cost) <= cost(1) / 0.97


@pytest.mark.parametrize("target", [looping, prose])
def test_it_costs_hardly_more_than_its_best_source(target):
    prompt = plain(target(), [], 200)
    alone = cost_of(generate(Suffix(), target(), prompt, 300, rows=16), USUAL)
    cost = Quick({1: 10.0, 8: 11.4, 16: 13.3, 32: 21.0, 64: 26.0})
    assert cost_of(generate(Auto(cost), target(), prompt, 300, rows=32), USUAL) <= 1.03 * alone


def test_it_takes_its_guesses_from_the_source_it_is_given():
    prompt = plain(looping(), [], 100)
    run = generate(Auto(USUAL, source=PromptLookup(span=3)), looping(), prompt, 100)
    assert max(len(outcome.path) for outcome in run.outcomes) == 4


def test_where_rows_are_dear_only_near_certain_ones_are_drafted():
    prompt = plain(noise(), [], 100)
    run = generate(Auto(DEAR), noise(), prompt, 200)
    assert run.rows / run.steps < 1.05


def test_a_text_that_nothing_foresees_is_seldom_drafted_for():
    prompt = plain(noise(), [], 100)
    run = generate(Auto(USUAL), noise(), prompt, 400)
    evaluated = [len(outcome.rows) > 0 and max(outcome.rows) >= 0 for outcome in run.outcomes[150:]]
    assert sum(evaluated) < 0.1 * len(evaluated)
    assert run.rows < run.steps + 80


def test_a_rest_ends_where_the_text_begins_to_repeat_itself():
    drafter, surprise = Auto(USUAL), plain(noise(), [], 300)
    stream = surprise + surprise[:60]
    run = generate(drafter, following(lambda place: stream[place % 360], 4000), surprise[:2], 350)
    drafted = [bool(tree) for tree in run.trees]
    assert sum(drafted[200:290]) < 12
    assert run.tokens_per_step > 1.1  # the 60 tokens that had been said before took far fewer steps


def test_in_a_batch_where_nothing_can_be_foreseen_each_looks_the_more_seldom_the_larger_it_is():
    looks = []
    for sequences in (1, 4, 16):
        cost, text = Counted({1: 10.0, 64: 10.2}), plain(noise(), [], 100)
        cost.sequences = sequences
        drafter, context = Auto(cost), DraftContext(text, 100, 4000)
        while len(text) < 600:
            outcome = verify(drafter.propose(context, 4), text, noise(), 4)
            text.extend(outcome.path)
            drafter.learn(context, outcome)
        looks.append(cost.looks)
    assert looks[0] > looks[1] > looks[2] > 0


@pytest.mark.parametrize(("last_row", "repeating", "drafts"), [
    (1.01, 1, True),  # rows are nearly free
    (1.05, 1, False),  # one request's would slow the other three down
    (1.05, 3, False),
    (1.05, 4, True),  # all of them gain
])  # fmt: skip
def test_in_a_batch_a_repetition_is_drafted_where_that_slows_nobody_down(last_row, repeating, drafts):
    cost, loop = Quick({1: 1.0, 4: 1.0, 5: last_row, 64: 60 * (last_row - 1) + 1}), [*range(40)]
    drafters = [Auto(cost) for _ in range(4)]
    texts = [loop * 2 if number < repeating else list(range(100 * number, 100 * number + 80)) for number in range(4)]
    contexts, drafted = [DraftContext(text, 40, 4000) for text in texts], [0] * 4
    for step in range(60):
        cost.begin(4)
        for number, (drafter, context) in enumerate(zip(drafters, contexts, strict=True)):
            draft = drafter.propose(context, 16)
            drafted[number] += len(draft) > 0
            context.tokens.append(step % 40 if number < repeating else 1000 * (number + 1) + step)
            rows = range(1, 1 + len(draft)) if drafts else [-1] * len(draft)
            drafter.learn(context, became(rows, [[]], [[]], context.tokens[-1:], []))
    assert not any(drafted[repeating:])
    assert all(looks > 50 if drafts else looks < 12 for looks in drafted[:repeating])


def test_in_a_batch_of_slow_steps_a_rest_ends_in_time():
    cost, text = Counted({1: 100.0, 64: 101.0}), plain(noise(), [], 100)
    drafter, context = Auto(cost), DraftContext(text, 100, 4000)
    for _ in range(16):
        cost.begin(2)
        outcome = verify(drafter.propose(context, 4), text, noise(), 4)
        text.extend(outcome.path)
        drafter.learn(context, outcome)
    assert cost.looks


def test_a_token_that_several_sources_guess_is_one_row():
    prompt = plain(looping(), [], 100)
    for tree in generate(Auto(FREE), looping(), prompt, 100, rows=64).trees:
        assert len(set(zip(tree.tokens, tree.parents, strict=True))) == len(tree)


def test_siblings_do_not_survive_more_often_than_once():
    """Not even where unlikely guesses have always been right."""
    prompt, lucky = plain(prose(), [], 200), Experience()
    for kind in [(match, depth) for match in range(10) for depth in range(1, 5)] * 20:
        lucky.guesses.record(kind, claim=0.1, hit=True)
    for tree in generate(Auto(FREE, experience=(lucky, lucky)), prose(), prompt, 100, rows=64).trees:
        for parent in set(tree.parents):
            total = sum(s for s, above in zip(tree.survival, tree.parents, strict=True) if above == parent)
            assert total <= 1.0001


def test_survival_is_what_comes_true():
    """Over many steps the expected number of accepted tokens is about the number accepted."""
    prompt = plain(prose(), [], 400)
    drafter, target = Auto(USUAL), prose()
    context, expected, accepted = DraftContext([*prompt, target(prompt)[0]], 400, 400), 0.0, 0
    drafter.learn(context, verify(DraftTree(), prompt, target, 0))
    for step in range(400):
        tree = drafter.propose(context, 32)
        outcome = verify(tree, context.tokens, target, 32)
        context.tokens.extend(outcome.path)
        drafter.learn(context, outcome)
        if step >= 100:
            expected += sum(tree.survival)
            accepted += len(outcome.accepted)
    assert expected == pytest.approx(accepted, rel=0.2)


# Calibration


def test_without_trials_the_drafter_is_believed():
    assert Calibration().estimate((1, 2), 0.7) == 0.7


def test_a_claim_is_corrected_by_what_became_of_earlier_ones_which_are_forgotten():
    calibration = Calibration()
    for _ in range(300):
        calibration.record((1, 2), 0.5, hit=True)
    assert calibration.estimate((1, 2), 0.5) > 0.95
    assert calibration.estimate((1, 3), 0.4) == pytest.approx(0.8, rel=0.05)  # another kind of the same coarse one
    assert calibration.estimate((2, 2), 0.4) == 0.4
    for _ in range(300):
        calibration.record((1, 2), 0.5, hit=False)
    assert calibration.estimate((1, 2), 0.5) < 0.1


def test_within_a_kind_the_order_of_the_claims_stays():
    calibration = Calibration()
    for place in range(200):
        calibration.record((1, 2), 0.01 + place % 2 / 100, hit=place % 9 == 0)
    assert calibration.estimate((1, 2), 0.01) < calibration.estimate((1, 2), 0.02) < 0.3


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30), st.floats(0, 1))
def test_an_estimate_is_a_probability(trials, claim):
    calibration = Calibration()
    for claimed, hit in trials:
        calibration.record((0, 0), claimed, hit)
    assert 0 <= calibration.estimate((0, 0), claim) < 1


# The cost of steps


def test_costs_are_interpolated():
    cost = StepCost({1: 10.0, 2: 19.5, 8: 17.2, 16: 21.6})
    assert [cost(rows) for rows in (1, 2, 8, 16)] == [10.0, 19.5, 17.2, 21.6]
    assert cost(12) == pytest.approx(19.4)
    assert cost(24) == pytest.approx(26.0)
    assert StepCost({1: 3.0})(50) == 3.0


def test_a_batch_goes_by_what_its_own_steps_took():
    cost = StepCost({1: 10.0, 8: 12.0})
    cost.sequences = 4
    table = [cost(4), cost(6)]
    assert [cost.ahead(4), cost.ahead(6)] == pytest.approx(table)  # before any step
    for _ in range(30):
        cost.observe(4, 20.0)
    assert cost.ahead(4) == pytest.approx(20.0)
    assert cost.ahead(8) == pytest.approx(20.0 + cost(8) - cost(4))
    assert [cost(4), cost(6)] == table  # which stays as it is
    cost.sequences = 1
    assert cost.ahead(1) == 10.0


def test_a_step_that_was_held_up_does_not_count_as_what_it_takes():
    cost = StepCost({1: 10.0, 8: 12.0})
    for _ in range(20):
        cost.observe(1, 10.0)
    cost.observe(1, 5000.0)
    assert cost.ahead(1) < 15


def test_all_requests_of_a_batch_together_spend_on_looking_what_one_does():
    cost = StepCost({1: 10.0, 64: 10.0})
    alone = cost.patience()
    for sequences in (2, 4, 16):
        spent = 0.0
        for _ in range(400):
            cost.begin(sequences)
            spent += sequences * cost.patience()
        assert spent / 400 == pytest.approx(alone)


def test_where_looking_for_drafts_takes_long_it_gains_less():
    cost = StepCost({1: 1.0, 64: 2.0})
    before = cost.gain(4, 1.0)
    cost.drafted(5000.0)  # something else held it up
    assert cost.gain(4, 1.0) > before - 0.1
    for _ in range(60):
        cost.drafted(3.0)
    assert before > 0 > cost.gain(4, 1.0)


def test_until_there_is_a_table_rows_are_taken_to_be_dear_and_one_to_take_what_it_took():
    cost = StepCost()
    cost.observe(1, 20.0)
    assert cost.ahead(1) == pytest.approx(20.0)
    assert cost.ahead(8) > 2 * cost.ahead(1)
    assert not cost.measured
    cost.fit({1: 19.0, 8: 21.0})
    assert cost.measured
    assert (cost(1), cost(8)) == (19.0, 21.0)
    assert cost.ahead(8) == pytest.approx(22.0)


def test_until_there_is_a_table_steps_show_what_each_number_of_rows_costs():
    cost = StepCost()
    for _ in range(30):
        cost.observe(1, 10.0)
        cost.observe(3, 11.0)
        cost.observe(16, 90.0)
    assert cost.ahead(1) == pytest.approx(10.0)
    assert [cost.ahead(rows) for rows in (2, 3, 16)] == pytest.approx([11.0, 11.0, 90.0], abs=1)
    assert cost.ahead(32) > cost.ahead(16)  # what was not seen is guessed from what was
    assert not cost.measured
    cost.fit({1: 10.0, 16: 20.0})
    assert cost.ahead(16) == 20.0


@pytest.mark.parametrize("table", [{}, {2: 1.0}, {1: 0.0}, {0: 1.0, 1: 1.0}])
def test_a_table_without_the_cost_of_one_row_is_refused(table):
    with pytest.raises(ValueError, match="table of step costs"):
        StepCost(table)


def test_how_much_longer_the_last_step_took_is_known_once_plain_ones_are():
    cost = StepCost({1: 10.0, 64: 20.0})
    cost.observe(4, 15.0)
    assert cost.beyond == 0
    cost.observe(1, 10.0)
    cost.observe(4, 15.0)
    assert cost.beyond == pytest.approx(0.5)
    cost.sequences = 2  # of which nothing is known yet
    cost.observe(8, 30.0)
    assert cost.beyond == 0
