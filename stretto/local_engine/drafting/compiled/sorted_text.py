"""A text whose places are in the order of what follows them: a suffix array.

Manber and Myers, "Suffix arrays: a new method for on-line string searches", 1993.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.jit import inner

__all__ = ["SortedText", "span"]


class SortedText(NamedTuple):
    """All substrings of a text that does not grow, in eight bytes a token.

    Attributes:
        tokens: of the text, with negative ones between texts and enough of them behind the last # [tokens]
        order: its places, by the tokens that follow # [places]
    """

    tokens: NDArray[np.int32]
    order: NDArray[np.int32]


@inner
def span(sorted_text, low, high, depth, token):
    """Where, among places that agree in ``depth`` tokens, those are that have this token next: first, and behind."""
    tokens, order = sorted_text.tokens, sorted_text.order
    first, end = low, high
    while first < end:
        middle = (first + end) // 2
        if tokens[order[middle] + depth] < token:
            first = middle + 1
        else:
            end = middle
    last, end = first, high
    while last < end:
        middle = (last + end) // 2
        if tokens[order[middle] + depth] <= token:
            last = middle + 1
        else:
            end = middle
    return first, last
