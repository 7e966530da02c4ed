"""Drafts from what followed earlier occurrences of a text's end; see `stretto.local_engine.drafting.suffix`."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.compiled.automaton import (
    COUNT,
    FIRST,
    LAST,
    LENGTH,
    LINK,
    NEXT,
    READ,
    TO,
    TOKEN,
    advance,
    append,
    shorten,
)
from stretto.local_engine.kernels.compiling.jit import inner, python_or_compiled

OTHERS = 2
"""Number of automata that are searched in addition to that of the text."""

LONGEST = 16
"""Maximum number of tokens of a match in a sorted text."""

DEEPEST = 64
"""Number of tokens by which the places of a sorted text are ordered."""

_FLOOR = 0.02  # survival below which nothing is drafted
_BRANCHES = 8
_CONTEXTS = 3
_SORTED = 1 + OTHERS  # index of the sorted text among those searched
_SAMPLES = 16  # number of matching places in it that are sampled


@inner
def _branch(automaton, which, state, length, mass, parent, heap, pushed):
    """Push the tokens seen after a state, with shares of ``mass`` by their counts; of equal counts, the latest."""
    states, edges = automaton.states, automaton.edges
    if mass < _FLOOR:
        return
    while state > 0 and states[state, FIRST] < 0:
        # The end of the text. It continues as its longest match did, so a loop is drafted repeatedly.
        state = np.int64(states[state, LINK])
        length = min(length, np.int64(states[state, LENGTH]))
    if state <= 0:
        return
    total, filled = np.int64(0), 0
    times, chosen = np.empty(_BRANCHES, np.int64), np.empty(_BRANCHES, np.int64)
    edge = np.int64(states[state, FIRST])
    while edge >= 0:
        often = np.int64(states[edges[edge, TO], COUNT])
        if often == 0:  # too long to be counted
            often = np.int64(1)
        total += often
        if filled < _BRANCHES or often > times[filled - 1]:
            filled = min(filled + 1, _BRANCHES)
            at = filled - 1
            while at > 0 and times[at - 1] < often:
                times[at], chosen[at] = times[at - 1], chosen[at - 1]
                at -= 1
            times[at], chosen[at] = often, edge
        edge = np.int64(edges[edge, NEXT])
    for at in range(filled):
        survival, token = mass * times[at] / total, np.int64(edges[chosen[at], TOKEN])
        if survival >= _FLOOR:
            pushed[0] += 1  # breaks ties: the first wins
            target = np.int64(edges[chosen[at], TO])
            heapq.heappush(heap, (-survival, pushed[0], which, target, np.int64(0), length + 1, token, parent))


@inner
def _branch_sorted(sorted_text, low, high, length, mass, parent, heap, pushed):
    """Push the tokens after places of a sorted text that agree in ``length`` tokens, as `_branch` does.

    Frequent tokens are found from a sample of the places, and their counts are exact.
    """
    tokens, order = sorted_text.tokens, sorted_text.order
    if mass < _FLOOR or length >= DEEPEST:
        return
    step, at, last = max((high - low) // _SAMPLES, 1), low, np.int64(-1)
    while at < high:
        token = np.int64(tokens[order[at] + length])
        if token >= 0 and token != last:  # a negative token is the end of a text
            first, end = span(sorted_text, low, high, length, token)
            survival = mass * (end - first) / (high - low)
            if survival >= _FLOOR:
                pushed[0] += 1
                heapq.heappush(heap, (-survival, pushed[0], np.int64(_SORTED), first, end, length + 1, token, parent))
        last = token
        at += step


@inner
def _begin(automaton, which, cursor, shortest, heap, pushed):
    """Push what followed a match, and what followed shorter suffixes of it."""
    states, mass = automaton.states, 1.0
    state, length = cursor[0], cursor[1]
    while state > 0 and states[state, FIRST] < 0:  # the end of a text, which can be this one, as others see it
        state = np.int64(states[state, LINK])
        length = min(length, np.int64(states[state, LENGTH]))
    for _ in range(_CONTEXTS):
        if state <= 0 or length < shortest:
            return
        _branch(automaton, which, state, length, mass * length / (length + 1), np.int64(-1), heap, pushed)
        mass /= length + 1
        state = np.int64(states[state, LINK])
        length = np.int64(states[state, LENGTH])


@inner
def _begin_sorted(sorted_text, recent, shortest, heap, pushed):
    """Push what followed the longest match in a sorted text, and return the length of the match."""
    low, high = np.int64(0), np.int64(len(sorted_text.order))
    found, least, most = np.int64(0), np.int64(1), np.int64(min(len(recent), LONGEST))
    first, last = low, high
    while least <= most:  # if a length occurs, so does every shorter one
        length = (least + most) // 2
        first, last = low, high
        for depth in range(length):
            first, last = span(sorted_text, first, last, depth, recent[len(recent) - length + depth])
        if first < last:
            found, least = length, length + 1
        else:
            most = length - 1
    if found == 0 or found < shortest:
        return found
    first, last = low, high
    for depth in range(found):
        first, last = span(sorted_text, first, last, depth, recent[len(recent) - found + depth])
    _branch_sorted(sorted_text, first, last, found, found / (found + 1), np.int64(-1), heap, pushed)
    return found


@inner
def _which(which, text, first, second):
    """Return the automaton with this number."""
    if which == 0:
        return text
    return first if which == 1 else second


@inner
def _read_on(text, first, second, cursors, new, counted):
    """Append tokens to the text, and follow it in the other texts."""
    for token in new:
        append(text, token, counted)
    for which in range(1, 1 + OTHERS):
        others = _which(which, text, first, second)
        if others.own[READ] > 0:
            for token in new:
                advance(others, cursors[which - 1], token)


@python_or_compiled
def continuations(text, first, second, sorted_text, cursors, new, recent, counted, shortest, tokens, parents, survival):
    """Append tokens to the text, and draft a tree that always grows by its most probable node.

    Args:
        text: automaton of the text.
        first: automaton of other texts; it can be empty.
        second: as above.
        sorted_text: other texts that do not grow; see `SortedText`.
        cursors: position of the text in each of the others # [2, 2]; last, length of the sorted text's match # [3, 2]
        new: tokens to append to the text # [any]
        recent: last tokens of the text, including the new ones # [at most `LONGEST`]
        counted: see `extend`.
        shortest: minimum number of tokens of a match.
        tokens: output, token of each node # [most]
        parents: output, parent of each node, -1 for the root # [most]
        survival: output, survival of each node # [most]

    Returns:
        number of nodes.
    """
    _read_on(text, first, second, cursors, new, counted)
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    pushed, matched = np.zeros(1, np.int64), np.zeros(2, np.int64)
    state = np.int64(text.states[text.own[LAST], LINK])
    if state > 0:
        matched[0], matched[1] = state, text.states[state, LENGTH]
    _begin(text, np.int64(0), matched, shortest, heap, pushed)
    for which in range(1, 1 + OTHERS):
        others = _which(which, text, first, second)
        if others.own[READ] > 0:
            shorten(others, cursors[which - 1], cursors[which - 1, 1])
            _begin(others, np.int64(which), cursors[which - 1], shortest, heap, pushed)
    if len(sorted_text.order) > 0:
        cursors[OTHERS, 1] = _begin_sorted(sorted_text, recent, shortest, heap, pushed)
    count = 0
    while len(heap) > 0 and count < len(tokens):
        negative, _, own, state, until, length, token, parent = heapq.heappop(heap)
        known = False
        for node in range(count):
            known |= tokens[node] == token and parents[node] == parent
        if known:
            continue
        tokens[count], parents[count], survival[count] = token, parent, -negative
        mass = -negative * length / (length + 1)
        if own == _SORTED:
            _branch_sorted(sorted_text, state, until, length, mass, np.int64(count), heap, pushed)
        else:
            _branch(_which(own, text, first, second), own, state, length, mass, np.int64(count), heap, pushed)
        count += 1
    return count


class SortedText(NamedTuple):
    """All substrings of a text that does not grow, in eight bytes per token: a suffix array.

    Manber and Myers, "Suffix arrays: a new method for on-line string searches", 1993.

    Attributes:
        tokens: tokens of the texts, with negative ones between texts and enough of them after the last # [tokens]
        order: places in the text, sorted by the tokens that follow # [places]
    """

    tokens: NDArray[np.int32]
    order: NDArray[np.int32]


@inner
def span(sorted_text, low, high, depth, token):
    """Return the range of those places that have this token next, among places that agree in ``depth`` tokens."""
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
