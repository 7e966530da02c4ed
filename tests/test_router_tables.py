from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stretto.router.features import STEM
from stretto.router.pair_table import PairTable
from stretto.router.word_table import UNKNOWN, WordTable

SMALL = st.integers(0, 30)


@given(st.dictionaries(st.tuples(SMALL, SMALL), st.integers(0, 200)), st.lists(SMALL, min_size=1))
def test_a_table_of_pairs_gives_what_a_dictionary_of_pairs_gives(pairs, numbers):
    found = PairTable(pairs, 31, np.dtype("uint8")).look_up(np.array(numbers, "intp"))
    assert found.tolist() == [pairs[pair] for pair in pairwise(numbers) if pair in pairs]


def test_rows_without_gaps_are_laid_behind_one_another():
    pairs = {(first, second): first * 40 + second for first in range(40) for second in range(40)}
    table = PairTable(pairs, 40, np.dtype("uint16"))
    for first in range(40):
        assert table.look_up(np.array([first, 7], "intp")).tolist() == [first * 40 + 7]


@given(st.lists(st.text(min_size=1, max_size=8), unique=True), st.lists(st.text(min_size=1, max_size=8)))
def test_a_table_of_words_gives_what_a_dictionary_of_words_gives(known, asked):
    words = {word: number for number, word in enumerate(known, 1)}
    asked = [*asked, *known]
    assert WordTable(words, {}).look_up(asked).tolist() == [words.get(word, UNKNOWN) for word in asked]


def test_words_that_want_the_same_slot_are_all_found():
    words = {f"word{number}": number for number in range(1, 5001)}  # in four slots a word, hundreds meet
    assert WordTable(words, {}).look_up(list(words)).tolist() == list(words.values())


def test_an_unknown_word_has_the_number_of_its_first_letters():
    table = WordTable({"harbour": 1}, {"harbo": 2})
    assert table.look_up(["harbour", "harbours", "harb", "x" * STEM]).tolist() == [1, 2, UNKNOWN, UNKNOWN]
