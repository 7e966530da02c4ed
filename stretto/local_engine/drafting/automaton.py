"""A suffix automaton that grows token by token and counts how often each substring occurred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stretto.local_engine.drafting.compiled.automaton import (
    EDGES,
    LAST,
    LENGTH,
    LINK,
    READ,
    RECENT,
    STATES,
    Automaton,
    extend,
    index,
)

_LEAST = 256
_TAIL = [LAST, RECENT, RECENT + 1]  # indices in `own` that belong to a text


class Tail:
    """The end of one of multiple texts in an automaton.

    Attributes:
        state: state of the whole text, and a cursor in it # [3]
    """

    def __init__(self) -> None:
        self.state = np.zeros(len(_TAIL), np.int64)


class SuffixAutomaton:
    """All substrings of one or more token sequences, with at most two states per token.

    A state is a set of substrings that end at the same positions, each a suffix of the next longer one. Its link points
    to the longest suffix that ends at more positions. Appending takes amortised O(1).

    Appending a token increments the counts of all suffixes, and a text that loops has as many of their states as loops.
    So only substrings of up to ``counted`` tokens are counted, and appending stays O(1).

    Attributes:
        arrays: its states and edges, in arrays that are replaced when they are full.
        counted: see above.
    """

    def __init__(self, tokens: Sequence[int] = (), *, counted: int = 48) -> None:
        self.counted = counted
        self._capacity = 0  # tokens
        self.arrays = _empty(0)
        self.arrays.own[STATES], self.arrays.states[0] = 1, (0, -1, 0, -1)
        if tokens:
            self.extend(tokens)

    @property
    def match(self) -> int:
        """Length of the text's longest suffix that occurred before."""
        states = self.arrays.states
        return int(states[max(states[self.arrays.own[LAST], LINK], 0), LENGTH])

    def extend(self, tokens: Sequence[int]) -> None:
        extend(self.roomy(len(tokens)), np.array(tokens, np.int64), self.counted)

    def extend_from(self, tail: Tail, tokens: Sequence[int]) -> None:
        """Append tokens to the text with this tail."""
        own = self.roomy(len(tokens)).own
        own[_TAIL] = tail.state
        self.extend(tokens)
        tail.state = own[_TAIL]

    def roomy(self, tokens: int) -> Automaton:
        """Return the arrays, with room for this many more tokens."""
        read = int(self.arrays.own[READ]) + tokens
        if read > self._capacity:
            self._capacity = max(2 * read, _LEAST)
            small, self.arrays = self.arrays, _empty(self._capacity)
            self.arrays.own[:] = small.own
            for new, old, count in zip(self.arrays[1:3], small[1:3], small.own[[STATES, EDGES]], strict=True):
                new[:count] = old[:count]
            index(self.arrays)
        return self.arrays


def _empty(tokens: int) -> Automaton:
    """Return arrays for this many tokens: at most two states and three edges for each."""
    states, edges = 2 * tokens + 2, 3 * tokens + 2
    table = 1 << (2 * edges).bit_length()
    rows, lines = np.zeros((states, 4), np.int32), np.zeros((edges, 4), np.int32)
    return Automaton(np.zeros(6, np.int64), rows, lines, np.zeros(table, np.int32))
