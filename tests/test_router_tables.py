from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stretto.router.pair_table import PairTable

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
