"""The watch sees what a suffix automaton sees, from a few tokens on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.drafting.auto import RepetitionWatch
from stretto.local_engine.drafting.automaton import SuffixAutomaton

TEXTS = st.lists(st.integers(0, 2), max_size=60)


@given(TEXTS, st.lists(st.integers(0, 60), max_size=4))
def test_it_sees_every_match_that_is_long_enough_however_the_text_arrives(text, cuts):
    watch = RepetitionWatch(3)
    for cut in sorted(cuts):
        watch.match(text[:cut])
    longest = SuffixAutomaton(text).match
    seen = watch.match(text)
    assert (seen >= 3) == (longest >= 3)
    assert seen <= longest


@pytest.mark.parametrize("repeated", [4, 20, 70])
def test_the_length_is_that_of_the_match(repeated):
    text = [*range(100), *range(10, 10 + repeated)]
    assert RepetitionWatch(4).match(text) == repeated


def test_of_several_places_it_goes_by_the_latest():
    assert RepetitionWatch(3).match([1, 2, 3, 4, 5, 6, 9, 4, 5, 6, 8, 1, 2, 3, 4, 5, 6]) == 3
    assert RepetitionWatch(3).match([7, 4, 5, 6, 9, 4, 5, 6, 8, 9, 4, 5, 6]) == 4


def test_a_text_that_goes_on_as_before_is_a_match_that_grows():
    text, watch = [1, 2, 3, 4, 5] * 20, RepetitionWatch(4)
    lengths = [watch.match(text[:length]) for length in range(9, 100)]
    assert lengths == list(range(4, 95))
