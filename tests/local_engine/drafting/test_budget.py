"""The rows of a step, divided over the requests of a batch."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.step_cost import StepCost

USUAL = StepCost({1: 10.0, 8: 11.4, 16: 13.3, 32: 21.0, 64: 42.0})


def draft(survival, cost=USUAL):
    tree = DraftTree(step_cost=cost)
    for token, probability in enumerate(survival):
        tree.add(token, survival=probability)
    return tree


def test_methods_chosen_by_name_get_an_equal_share_at_most():
    assert divide([draft([0.1] * 40, None), draft([0.9] * 3, None), draft([], None)], 30, packed=True) == [10, 3, 0]


def test_rows_go_where_they_are_worth_most():
    counts = divide([draft([0.9, 0.85, 0.8, 0.7, 0.6]), draft([0.2, 0.01]), draft([0.5, 0.01])], 64, packed=True)
    assert counts == [5, 1, 1]


def test_one_request_may_have_more_than_an_equal_share():
    assert divide([draft([0.95] * 12), draft([0.5, 0.01])], 14, packed=True) == [12, 1]


@pytest.mark.parametrize("packed", [True, False])
def test_nobody_is_slowed_by_the_drafts_of_others(packed):
    certain, cost = [0.95] * 12, StepCost({1: 10.0, 8: 20.0})
    assert divide([draft(certain, cost), draft([], cost)], 64, packed=packed) == [0, 0]
    assert divide([draft(certain, cost), draft([0.01], cost)], 64, packed=packed) == [0, 0]
    assert sum(divide([draft(certain, cost), draft(certain, cost)], 64, packed=packed)) > 4
    free = StepCost({1: 10.0, 64: 10.1})
    assert divide([draft(certain, free), draft([], free)], 64, packed=packed) == [12, 0]


def test_no_more_rows_than_the_limit():
    assert sum(divide([draft([0.9] * 9)] * 4, 10, packed=True)) == 10


@pytest.mark.parametrize("packed", [True, False])
def test_drafts_shrink_to_none_as_the_batch_grows(packed):
    likely = [0.6, 0.35, 0.2, 0.1, 0.05]
    drafted = [sum(divide([draft(likely)] * size, 64, packed=packed)) / size for size in (1, 2, 4, 8, 16, 32)]
    assert drafted == sorted(drafted, reverse=True)
    assert drafted[0] >= 2
    assert drafted[-1] == 0


def test_a_method_by_name_is_evaluated_whatever_the_others_have():
    assert divide([draft([0.9] * 2), draft([0.1] * 4, None)], 30, packed=True)[1] == 4


def test_where_padding_costs_too_all_use_the_rows_there_are():
    counts = divide([draft([0.9, 0.9, 0.9]), draft([0.9, 0.9, 0.9]), draft([0.5, 0.01])], 30, packed=False)
    assert counts == [3, 3, 2]
    assert divide([draft([0.3, 0.3]), *[draft([0.01, 0.01])] * 7], 64, packed=False) == [0] * 8


@given(
    st.lists(st.lists(st.floats(0, 1), max_size=4), min_size=1, max_size=3),
    st.integers(0, 9),
    st.dictionaries(st.integers(2, 16), st.floats(5, 60), max_size=4),
)
def test_no_other_fair_division_gives_more_tokens_per_millisecond(survivals, limit, table):
    cost = StepCost({1: 10.0, **table})
    own = [sorted(survival, reverse=True) for survival in survivals]

    def speed(counts):
        tokens = len(own) + sum(sum(survival[:count]) for survival, count in zip(own, counts, strict=True))
        return tokens / cost(len(own) + sum(counts))

    def fair(counts):
        least = 1 + min(sum(survival[:count]) for survival, count in zip(own, counts, strict=True))
        return least / cost(len(own) + sum(counts)) >= 0.97 / cost(len(own))

    chosen = divide([draft(survival, cost) for survival in own], limit, packed=True)
    possible = [counts for counts in product(*(range(len(s) + 1) for s in own)) if sum(counts) <= limit]
    best_first = sorted((-s, place, number) for number, survival in enumerate(own) for place, s in enumerate(survival))
    ranked = [tuple(Counter(each[2] for each in best_first[:n])[i] for i in range(len(own))) for n in range(20)]
    assert tuple(chosen) in possible
    assert fair(chosen)
    assert speed(chosen) >= max(speed(counts) for counts in possible if counts in ranked and fair(counts)) - 1e-9
