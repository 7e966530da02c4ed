"""What steps are said to take follows what they take."""

import pytest

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
