"""Thresholds that keep to a goal, and what they are worth on questions that they were not learned from."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.calibrating.curve import curve, gap_recovered, held_out, random_routing
from stretto.calibrating.thresholds import Spent, Trial, allowance, fewest, learn, learn_for, paid, stage

SMALL, MIDDLE, LARGE = Spent(1.0, 10, 0.001), Spent(2.0, 10, 0.002), Spent(9.0, 10, 0.01)


def trial(score, good=True, **changed):
    return Trial((score,), (good,), (SMALL, LARGE), **changed)


def draw(count, *, told=True, seed=1, step=1):
    """Questions whose small answers are worse the less sure the model is, or have nothing to do with it."""
    numbers = random.Random(seed)  # noqa: S311 - a draw of test data
    found = []
    for _ in range(count):
        doubts = [numbers.random() for _ in range(step)]
        good = [numbers.random() > (doubt if told else 0.5) for doubt in doubts]
        found.append(Trial(tuple(-doubt for doubt in doubts), tuple(good), (*(SMALL, MIDDLE)[:step], LARGE)))
    return found


def test_the_lowest_threshold_that_lets_no_more_worse_answers_stand_is_taken():
    trials = [trial(-0.1), trial(-0.2, good=False), trial(-0.3), trial(-0.4, good=False), trial(-0.5)]
    assert learn(0, trials) == (-0.15,)
    assert learn(1, trials) == (-0.35,)
    assert learn(2, trials) == (-0.5,)


def test_equal_scores_stand_or_fall_together():
    trials = [trial(0.0), trial(0.0, good=False), trial(0.0)]
    assert learn(0, trials) == (None,)
    assert learn(1, trials) == (0.0,)


@given(st.lists(st.tuples(st.floats(-5, 0), st.booleans()), min_size=1, max_size=30), st.integers(0, 5))
def test_never_do_more_worse_answers_stand_than_allowed(drawn, allowed):
    trials = [trial(score, good=good) for score, good in drawn]
    found = learn(allowed, trials)
    standing = [each for each in trials if stage(each, found) == 0]
    assert sum(not each.good[0] for each in standing) <= allowed


def test_an_answer_that_cannot_stand_goes_to_the_large_model_and_both_are_paid():
    assert stage(trial(None), (-9.0,)) == 1
    assert paid(trial(None), (-9.0,)) == [SMALL, LARGE]
    assert paid(trial(-1.0), (-9.0,)) == [SMALL]
    assert paid(trial(-1.0), (None,)) == [LARGE]


@pytest.mark.parametrize(("goal", "needed"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_questions_let_no_answer_stand(goal, needed):
    assert fewest(goal) == needed
    assert allowance(goal, needed) == 0
    assert allowance(goal, needed - 1) < 0
    assert learn_for(goal, [trial(-1.0)] * max(1, needed - 1)) == ((None,) if needed > 1 else (-1.0,))


def test_a_model_that_costs_more_than_it_saves_is_not_asked():
    trials = [trial(None)] * 30 + [trial(-0.1)] * 2
    assert learn_for(0.9, trials) == (None,)
    assert learn_for(0.9, [trial(-0.1)] * 30) == (-0.1,)


def test_the_goal_is_kept_on_questions_that_come_afterwards():
    """Conformal risk control promises it on average over questions of the same kind."""
    kept = []
    for seed in range(20):
        trials = draw(120, seed=seed)
        found = learn_for(0.8, trials[:60])
        later = [each.good[0] if stage(each, found) == 0 else True for each in trials[60:]]
        kept.append(sum(later) / len(later))
    assert sum(kept) / len(kept) >= 0.8


def test_a_ladder_divides_what_is_allowed_and_costs_no_more_than_either_model_alone():
    trials = draw(60, step=2)
    both = sum(each.usd for t in trials for each in paid(t, learn_for(0.8, trials)))
    for place in (0, 1):
        alone = [Trial((t.scores[place],), (t.good[place],), (t.costs[place], LARGE)) for t in trials]
        assert both <= sum(each.usd for t in alone for each in paid(t, learn_for(0.8, alone))) + 1e-9
    found = learn(6, trials)
    standing = [(t, place) for t in trials for place in [stage(t, found)] if place < 2]
    assert sum(not t.good[place] for t, place in standing) <= 6


def test_the_curve_of_scores_that_tell_lies_above_chance_and_that_of_others_does_not():
    telling, blind = draw(80), draw(80, told=False)
    for trials, above in ((telling, True), (blind, False)):
        alone = random_routing(trials, 0.0).agreement.value
        gap = gap_recovered(curve(trials), alone)
        assert (gap > 0.6) is above, gap


def test_without_worse_answers_there_is_no_gap_to_recover():
    trials = [trial(-0.1), trial(-0.2)]
    assert gap_recovered(curve(trials), 1.0) is None
    assert held_out(trials[:1], lambda rest: learn(0, rest)) is None


def test_held_out_questions_are_judged_by_thresholds_that_did_not_see_them():
    """A lone worse answer that is surest of all: learned with it nothing stands, and without it everything does."""
    trials = [trial(-0.5, right=(True, True))] * 9 + [trial(-0.1, good=False, right=(False, True))]
    point = held_out(trials, lambda rest: learn(0, rest))
    assert point.agreement.value == 0.9
    assert point.right.value == 0.9
    assert point.share.value == 0.8  # its part is judged by the others: all stand; the other parts saw it
    assert point.seconds.value == pytest.approx(0.2 * 1.0 + 0.8 * 9.0)  # a model that never stands is not asked


def test_prices_count_in_seconds_where_nobody_is_paid():
    free = [Trial((-0.1,), (True,), (Spent(9.0, 1, 0.0), Spent(1.0, 1, 0.0)))] * 30
    assert learn_for(0.9, free) == (None,)
