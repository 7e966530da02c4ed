"""Drafts from what followed earlier occurrences of the end of a text; see `stretto.local_engine.drafting.suffix`."""

from __future__ import annotations

import heapq

import numpy as np

from stretto.local_engine.drafting.compiled.automaton import (
    COUNT,
    FIRST,
    LAST,
    LENGTH,
    LINK,
    NEXT,
    TO,
    TOKEN,
    advance,
    append,
    shorten,
)
from stretto.local_engine.kernels.jit import inner, python_or_compiled

__all__ = ["continuations"]

_FLOOR = 0.02  # survival below which nothing is drafted
_BRANCHES = 8
_CONTEXTS = 3


@inner
def _branch(automaton, which, state, length, mass, parent, heap, pushed):
    """Consider the tokens seen behind a state, which share ``mass`` by how often each was; of equals the latest."""
    states, edges = automaton.states, automaton.edges
    if mass < _FLOOR:
        return
    while state > 0 and states[state, FIRST] < 0:
        # The end of the text. It continues as its longest match did, so a loop is drafted over and over.
        state = np.int64(states[state, LINK])
        length = min(length, np.int64(states[state, LENGTH]))
    if state <= 0:
        return
    total, held = np.int64(0), 0
    times, chosen = np.empty(_BRANCHES, np.int64), np.empty(_BRANCHES, np.int64)
    edge = np.int64(states[state, FIRST])
    while edge >= 0:
        often = np.int64(states[edges[edge, TO], COUNT])
        if often == 0:  # too long to be counted
            often = np.int64(1)
        total += often
        if held < _BRANCHES or often > times[held - 1]:
            held = min(held + 1, _BRANCHES)
            at = held - 1
            while at > 0 and times[at - 1] < often:
                times[at], chosen[at] = times[at - 1], chosen[at - 1]
                at -= 1
            times[at], chosen[at] = often, edge
        edge = np.int64(edges[edge, NEXT])
    for at in range(held):
        survival, token = mass * times[at] / total, np.int64(edges[chosen[at], TOKEN])
        if survival >= _FLOOR and token >= 0:  # a negative one separates texts
            pushed[0] += 1  # of equals, the first
            target = np.int64(edges[chosen[at], TO])
            heapq.heappush(heap, (-survival, pushed[0], which, target, length + 1, token, parent))


@inner
def _begin(automaton, which, cursor, shortest, heap, pushed):
    """Consider what followed a match, and what followed shorter suffixes of it."""
    states, mass = automaton.states, 1.0
    state, length = cursor[0], cursor[1]
    for _ in range(_CONTEXTS):
        if state <= 0 or length < shortest:
            return
        _branch(automaton, which, state, length, mass * length / (length + 1), np.int64(-1), heap, pushed)
        mass /= length + 1
        state = np.int64(states[state, LINK])
        length = np.int64(states[state, LENGTH])


@python_or_compiled
def continuations(text, answers, cursor, new, counted, shortest, tokens, parents, survival):
    """Append to the text and write down a tree that grows by its most probable node, wherever that is.

    Args:
        text: an automaton.
        answers: that of other texts.
        cursor: position of the text in these # [2]
        new: tokens to append to the text # [any]
        counted: see `extend`.
        shortest: least tokens of a match.
        tokens: of the nodes # [most]
        parents: of the nodes, -1 for the root # [most]
        survival: of the nodes # [most]

    Returns:
        number of nodes.
    """
    for token in new:
        append(text, token, counted)
        advance(answers, cursor, token)
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    pushed, matched = np.zeros(1, np.int64), np.zeros(2, np.int64)
    state = np.int64(text.states[text.own[LAST], LINK])
    if state > 0:
        matched[0], matched[1] = state, text.states[state, LENGTH]
    _begin(text, np.int64(0), matched, shortest, heap, pushed)
    shorten(answers, cursor, cursor[1])
    _begin(answers, np.int64(1), cursor, shortest, heap, pushed)
    count = 0
    while len(heap) > 0 and count < len(tokens):
        negative, _, which, state, length, token, parent = heapq.heappop(heap)
        known = False
        for node in range(count):
            known |= tokens[node] == token and parents[node] == parent
        if known:
            continue
        tokens[count], parents[count], survival[count] = token, parent, -negative
        mass = -negative * length / (length + 1)
        if which == 0:
            _branch(text, which, state, length, mass, np.int64(count), heap, pushed)
        else:
            _branch(answers, which, state, length, mass, np.int64(count), heap, pushed)
        count += 1
    return count
