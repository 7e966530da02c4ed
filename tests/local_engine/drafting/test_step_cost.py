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
