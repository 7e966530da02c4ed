"""Drafts from what [PAD]s said, and [PAD]s that are worth their rows; see `stretto.local_engine.drafting.lexical`."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.compiled.counters import estimate, record
from stretto.local_engine.drafting.compiled.pace import step_ms
from stretto.local_engine.kernels.jit import VERSION, entry, inner

__all__ = ["ROWS", "Units", "listen", "nothing_said", "plan"]

ROWS = 24
"""Of a draft at most."""

_NODES = 12  # guesses at most
_FLOOR = 0.02  # survival below which nothing is drafted
_USUAL, _FALLS = 0.6, 0.65  # gain of the first place until it is known, and of each place beside the one before it
_LEARN = 1 / 16
_FORGET = 1 / 32
_SURE = (0.5, 0.8, 0.95)

Counters = tuple[NDArray[np.float64], NDArray[np.float64]]


class Units(NamedTuple):
    """What [PAD]s have said, and what is known of such predictions.

    Attributes:
        tokens: predicted for each place, the most probable one first # [places, k]
        chances: their probabilities # [places, k]
        gains: for each place, accepted tokens that a [PAD] there gave # [places]
        known: how many places were predicted, and how sure the model was of the token before them # [2]
        counters: see `Calibration`.
    """

    tokens: NDArray[np.int64]
    chances: NDArray[np.float64]
    gains: NDArray[np.float64]
    known: NDArray[np.int64]
    counters: Counters


def nothing_said(places: int, breadth: int, counters: Counters) -> Units:
    """Room for predictions, by what is known of them."""
    gains = np.array([_USUAL * _FALLS**place for place in range(places)])
    return Units(np.empty((places, breadth), np.int64), np.empty((places, breadth)), gains, np.zeros(2, int), counters)


@inner
def _kind(depth, rank, certainty):
    coarse = min(depth, 15) << 4 | min(rank, 15)
    return coarse, coarse << 2 | certainty


@inner
def _consider(units, heap, above, parent, depth, rank):
    """Put a combination on the heap that goes on with this prediction."""
    if depth < units.known[0] and rank < units.tokens.shape[1]:
        coarse, fine = _kind(depth, rank, units.known[1])
        survival = above * estimate(units.counters, coarse, fine, units.chances[depth, rank])
        if survival >= _FLOOR:
            heapq.heappush(heap, (-survival, np.int64(parent), np.int64(depth), np.int64(rank)))


@inner
def _grow(units, room, tokens, parents, survival):
    """Write down the most probable combinations of what is predicted, in order; how many there are."""
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    count = 0
    _consider(units, heap, 1.0, -1, 0, 0)
    while len(heap) > 0 and count < min(_NODES, room):
        negative, parent, depth, rank = heapq.heappop(heap)
        tokens[count], parents[count], survival[count] = units.tokens[depth, rank], parent, -negative
        _consider(units, heap, 1.0 if parent < 0 else survival[parent], parent, depth, rank + 1)
        _consider(units, heap, -negative, count, depth + 1, 0)
        count += 1
    return count


@inner
def _take(units, room, alpha, tokens, parents, survival):
    """Write down what is sure enough to be taken as it is; how many tokens there are."""
    count = 0
    while count < min(units.known[0], room) and units.chances[count, 0] > alpha:
        tokens[count], parents[count], survival[count] = units.tokens[count, 0], count - 1, 1.0
        count += 1
    return count


@inner
def _choose(units, count, parents, survival, costs, room, hung):
    """Choose the first so many nodes, and [PAD]s, with which a step gives the most tokens a millisecond.

    A node gives its survival now. A [PAD] gives what such a one has gained, in the next step, if that begins where it
    hangs. All requests of a batch are taken to draft as much. ``hung`` is how many [PAD]s hang on each node, the root
    first # [count + 1]
    """
    places, sequences, best, chosen = len(units.gains), costs[4], 1.0 / costs[1], 0
    ends, some = np.zeros(count + 1), np.zeros(count + 1, np.int64)  # probability that the next step begins there
    ends[0], tokens = 1.0, 1.0
    for nodes in range(count + 1):
        if nodes > 0:
            ends[nodes] = survival[nodes - 1]
            ends[parents[nodes - 1] + 1] -= survival[nodes - 1]
            tokens += survival[nodes - 1]
        worth, rows = tokens, nodes
        for node in range(nodes + 1):
            some[node] = 0
        while True:
            pace = worth / step_ms(costs, sequences * rows) if rows > 0 else 0.0
            if pace > best:
                best, chosen = pace, nodes
                for node in range(count + 1):
                    hung[node] = some[node] if node <= nodes else 0
            likeliest, value = 0, 0.0
            for node in range(nodes + 1):
                if some[node] < places and ends[node] * units.gains[some[node]] > value:
                    likeliest, value = node, ends[node] * units.gains[some[node]]
            if value <= 0.0 or rows >= room:
                break
            worth, rows = worth + value, rows + 1
            some[likeliest] += 1
    return chosen


@inner
def _fade(units):
    """Note that what was said, if anything, was worth nothing, and forget some of that: it is tried again."""
    for place in range(len(units.gains)):
        if place < units.known[0]:
            units.gains[place] -= _LEARN * units.gains[place]
        units.gains[place] += _FORGET * (_USUAL * _FALLS**place - units.gains[place])
    units.known[0] = 0


@entry
def plan(units, costs, alpha, tokens, parents, survival, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """Write down a draft: guesses, and behind them [PAD]s, each node's one behind the other.

    Args:
        units: what was said.
        costs: see `StepCost.curve`.
        alpha: predictions above it are taken as they are, and every place has its [PAD]; 1 for none.
        tokens: of the nodes # [at most `ROWS`]
        parents: of the nodes, -1 for the root # [as many]
        survival: of the nodes # [as many]
        version: see `VERSION`.

    Returns:
        how many guesses there are, how many nodes, and what the rows of the guesses take, in steps without drafts.
    """
    room = len(tokens)
    if alpha < 1:
        guesses = _take(units, room - len(units.gains), alpha, tokens, parents, survival)
        hung = np.zeros(guesses + 1, np.int64)
        hung[guesses] = min(len(units.gains), room)
    else:
        count = _grow(units, room, tokens, parents, survival)
        hung = np.zeros(count + 1, np.int64)
        guesses = _choose(units, count, parents, survival, costs, room, hung)
    at = guesses
    for node in range(-1, guesses):
        parent = np.int64(node)
        for place in range(hung[node + 1]):
            tokens[at], parents[at], survival[at] = -1 - place, parent, 1.0 if node < 0 else survival[node]
            parent, at = np.int64(at), at + 1
    if at == 0:
        _fade(units)
    _, plain, _, surplus, sequences = costs
    took = (step_ms(costs, sequences * guesses) - surplus) / plain - 1 if guesses > 0 else 0.0
    return guesses, at, took


@entry
def listen(units, path, accepted, took, rows, tops, probabilities, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """Note how good the predictions were, and take in what is predicted now.

    Args:
        units: what was said, and is said now.
        path: the tokens that were committed # [any]
        accepted: how many of them had been drafted.
        took: see `plan`.
        rows: of the last accepted token, and of the [PAD]s that spoke of what follows it # [1 or more]
        tops: the most probable tokens of each row, in order # [all rows, k], or none
        probabilities: theirs.
        version: see `VERSION`.
    """
    said, certainty = units.known
    for place in range(said):
        gain = (1.0 if accepted > place else 0.0) - took / said
        units.gains[place] += _LEARN * (gain - units.gains[place])
    for depth in range(min(said, len(path))):  # each place, as long as those before it were right
        for rank in range(units.tokens.shape[1]):
            coarse, fine = _kind(depth, rank, certainty)
            hit = units.tokens[depth, rank] == path[depth]
            record(units.counters, coarse, fine, units.chances[depth, rank], hit)
        if path[depth] != units.tokens[depth, 0]:
            break
    units.known[0] = units.known[1] = 0
    if tops.shape[1] < units.tokens.shape[1]:
        return
    units.known[0] = len(rows) - 1
    for bound in _SURE:
        units.known[1] += probabilities[rows[0], 0] >= bound
    for place in range(len(rows) - 1):
        for rank in range(units.tokens.shape[1]):
            units.tokens[place, rank] = tops[rows[place + 1], rank]
            units.chances[place, rank] = probabilities[rows[place + 1], rank]
