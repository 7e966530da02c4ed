"""Suffix automaton in arrays, which compiled code can build, follow a text in and draft from.

Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.compiling.jit import inner, python_or_compiled

STATES, EDGES, LAST, RECENT, READ = 0, 1, 2, 3, 5  # indices in `own`
LENGTH, LINK, COUNT, FIRST = 0, 1, 2, 3  # of a state
FROM, TOKEN, TO, NEXT = 0, 1, 2, 3  # of an edge
_MIX = (0x9E3779B97F4A7C15 - 2**64, 0xC2B2AE3D27D4EB4F - 2**64)


class Automaton(NamedTuple):
    """All substrings of some texts.

    Attributes:
        own: number of states, number of edges, state of the whole text that is being read, a cursor in it, number of
            tokens read # [6]
        states: length of the longest substring, state of the longest suffix that ends elsewhere too or -1, count of
            occurrences, first edge or -1 # [states, 4]
        edges: source state, token, target state, next edge of the source state or -1 # [edges, 4]
        table: hash table of edges by state and token, each as its index plus 1; 0 is empty # [a power of two]
    """

    own: NDArray[np.int64]
    states: NDArray[np.int32]
    edges: NDArray[np.int32]
    table: NDArray[np.int32]


@inner
def _place(table, state, token):
    """Return the slot of the table where the search for an edge begins."""
    mixed = np.int64(state) * _MIX[0] ^ np.int64(token) * _MIX[1]
    return (mixed ^ mixed >> 29) & (len(table) - 1)


@inner
def _find(automaton, state, token):
    """Return the edge from a state by a token, or -1."""
    table, edges = automaton.table, automaton.edges
    at = _place(table, state, token)
    while table[at] > 0:
        edge = table[at] - 1
        if edges[edge, FROM] == state and edges[edge, TOKEN] == token:
            return np.int64(edge)
        at = (at + 1) & (len(table) - 1)
    return np.int64(-1)


@inner
def _list(table, edges, edge):
    """Insert an edge into the table."""
    at = _place(table, edges[edge, FROM], edges[edge, TOKEN])
    while table[at] > 0:
        at = (at + 1) & (len(table) - 1)
    table[at] = edge + 1


@inner
def _connect(automaton, state, token, target):
    """Add an edge from one state to another."""
    own, states, edges = automaton.own, automaton.states, automaton.edges
    edge = own[EDGES]
    own[EDGES] += 1
    edges[edge, FROM], edges[edge, TOKEN], edges[edge, TO] = state, token, target
    edges[edge, NEXT], states[state, FIRST] = states[state, FIRST], edge
    _list(automaton.table, edges, edge)


@inner
def _add(automaton, length):
    state = automaton.own[STATES]
    automaton.own[STATES] += 1
    states = automaton.states
    states[state, LENGTH], states[state, LINK], states[state, COUNT], states[state, FIRST] = length, -1, 0, -1
    return state


@inner
def append(automaton, token, counted):
    """Append a token to the text, for which there must be room; substrings above ``counted`` are not counted."""
    own, states = automaton.own, automaton.states
    state = own[LAST]
    edge = _find(automaton, state, token)
    if edge >= 0:  # another text has continued like this
        own[LAST] = _suffix(automaton, state, edge)
    else:
        own[LAST] = new = _add(automaton, states[state, LENGTH] + 1)
        while edge < 0:
            _connect(automaton, state, token, new)
            state = np.int64(states[state, LINK])
            if state < 0:
                break
            edge = _find(automaton, state, token)
        states[new, LINK] = 0 if state < 0 else _suffix(automaton, state, edge)
    recent = own[RECENT : RECENT + 2]
    advance(automaton, recent, token)
    shorten(automaton, recent, counted)
    suffix = recent[0]
    while suffix >= 0:
        states[suffix, COUNT] += 1
        suffix = np.int64(states[suffix, LINK])
    own[READ] += 1


@inner
def _suffix(automaton, state, edge):
    """Return the state of ``state``'s longest string plus the edge's token; split it off if necessary."""
    states, edges = automaton.states, automaton.edges
    target, token = edges[edge, TO], edges[edge, TOKEN]
    if states[target, LENGTH] == states[state, LENGTH] + 1:
        return np.int64(target)
    # From now on, its longest strings end at fewer positions than the string looked for.
    split = _add(automaton, states[state, LENGTH] + 1)
    states[split, COUNT] = states[target, COUNT]
    states[split, LINK], states[target, LINK] = states[target, LINK], split
    leading, first, last = states[target, FIRST], automaton.own[EDGES], np.int64(-1)
    while leading >= 0:  # in the same order
        own = automaton.own[EDGES]
        _connect(automaton, split, edges[leading, TOKEN], edges[leading, TO])
        if last >= 0:
            edges[last, NEXT], edges[own, NEXT], states[split, FIRST] = own, -1, first
        leading, last = edges[leading, NEXT], own
    while edge >= 0 and edges[edge, TO] == target:
        edges[edge, TO] = split
        state = np.int64(states[state, LINK])
        edge = _find(automaton, state, token) if state >= 0 else np.int64(-1)
    return split


@inner
def advance(automaton, cursor, token):
    """Advance a cursor by one token: the cursor is a state and the number of matching tokens # [2]."""
    states = automaton.states
    shorten(automaton, cursor, cursor[1])
    state, length = cursor[0], cursor[1]
    edge = _find(automaton, state, token)
    while state > 0 and edge < 0:
        state = np.int64(states[state, LINK])
        length = np.int64(states[state, LENGTH])
        edge = _find(automaton, state, token)
    if edge >= 0:
        cursor[0], cursor[1] = automaton.edges[edge, TO], length + 1
    else:
        cursor[0], cursor[1] = 0, 0


@inner
def shorten(automaton, cursor, length):
    """Shorten the match to at most this many tokens; this also corrects the state after a split."""
    states = automaton.states
    cursor[1] = min(cursor[1], length)
    while cursor[0] > 0 and states[states[cursor[0], LINK], LENGTH] >= cursor[1]:
        cursor[0] = states[cursor[0], LINK]


@python_or_compiled
def extend(automaton, tokens, counted):
    """Append tokens to the text, for which there must be room; substrings above ``counted`` are not counted."""
    for token in tokens:
        append(automaton, token, counted)


@python_or_compiled
def index(automaton):
    """Insert all edges into an empty table."""
    for edge in range(automaton.own[EDGES]):
        _list(automaton.table, automaton.edges, edge)
