"""What steps are said to take follows what they take."""

import pytest

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.step_cost import StepCost


def plain_steps(cost, sequences, took_ms, times=60):
    for _ in range(times):
        cost.begin(sequences)
        cost.observe(sequences, took_ms)


def test_times_measured_on_a_busy_machine_are_left_behind():
    cost = StepCost({1: 8.0, 8: 32.0})
    assert cost.lately(8) == 32.0  # nothing is known yet but the table
    plain_steps(cost, 1, 2.0)
    assert cost.lately(1) == pytest.approx(2.0, rel=0.01)
    assert cost.lately(8) == pytest.approx(8.0, rel=0.01)


def test_steps_of_as_many_sequences_tell_more_than_those_of_one():
    cost = StepCost({1: 8.0, 8: 32.0})
    plain_steps(cost, 1, 2.0)
    plain_steps(cost, 8, 4.0)
    assert cost.lately(8) == pytest.approx(4.0, rel=0.01)
    assert cost.lately(1) == pytest.approx(2.0, rel=0.01)


def test_a_draft_that_was_made_and_not_evaluated_makes_no_step_dearer():
    """A head reads the prompt before its first draft. Were that a step of one row, more rows would seem free."""
    cost = StepCost({1: 8.0, 8: 32.0})
    cost.observe(1, 100.0, drafting_ms=92.0)
    assert cost.ahead(1) == pytest.approx(8.0)
    assert cost.ahead(8) == pytest.approx(32.0)
    cost.observe(4, 30.0, drafting_ms=10.0)
    assert cost.beyond == pytest.approx(30 / 8 - 1)


def draft(*survival, cost):
    tree = DraftTree(step_cost=cost)
    tree.add_path(range(len(survival)), survival)
    return tree


def test_a_number_of_rows_that_is_dearer_than_more_of_them_is_not_chosen():
    cost = StepCost({1: 10.0, 2: 10.5, 3: 15.0, 4: 11.0})
    assert [cost(rows) for rows in (1, 2, 3, 4)] == [10.0, 10.5, 15.0, 11.0]
    assert divide([draft(0.9, 0.8, cost=cost)], 64, packed=True) == [1]
    assert divide([draft(0.9, 0.8, 0.7, cost=cost)], 64, packed=True) == [3]


def drafted_steps(cost, sequences, rows, took_ms, times=60):
    for _ in range(times):
        cost.begin(sequences)
        cost.observe(rows, took_ms)


def test_rows_that_cost_a_batch_more_than_was_timed_are_drafted_no_more():
    """The table is of one short text; what rows cost a batch also depends on how long its texts are."""
    cost = StepCost({1: 10.0, 2: 12.0, 3: 13.0, 8: 18.0})
    plain_steps(cost, 2, 12.0)
    drafts = [draft(0.3, cost=cost), draft(0.3, cost=cost)]
    assert sum(divide(drafts, 64, packed=True)) == 2
    drafted_steps(cost, 2, 4, 18.0)
    cost.begin(2)
    assert cost.ahead(4) == pytest.approx(18.0, rel=0.05)
    assert divide(drafts, 64, packed=True) == [0, 0]
    cost.begin(1)
    assert cost.ahead(3) == pytest.approx(13.0), "a single request has its own"


def test_a_busy_minute_is_forgotten():
    cost = StepCost({1: 10.0, 8: 18.0})
    plain_steps(cost, 1, 10.0)
    drafted_steps(cost, 1, 8, 34.0)
    assert cost.ahead(8) > 30
    plain_steps(cost, 1, 10.0, times=2000)
    assert cost.ahead(8) == pytest.approx(18.0, rel=0.01)
