"""Compiled code that makes drafts from the predictions of [PAD] rows, and chooses the [PAD]s worth their rows."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.compiling.jit import inner, python_or_compiled

__all__ = ["ROWS", "Units", "learn", "no_predictions", "plan"]

ROWS = 24
"""Of a draft at most."""

_MAX_GUESSES = 12
_MIN_SURVIVAL = 0.02  # below it nothing is drafted
_FIRST_YIELD = 0.6  # accepted tokens of the first position, until some were seen
_YIELD_DECAY = 0.65  # of each position, relative to the one before it
_YIELD_RATE = 1 / 16  # of what a step showed, to the yield
_RECOVERY_RATE = 1 / 32  # of the way back to the first yield, where predictions yielded nothing
_CONFIDENCE_BOUNDS = (0.5, 0.8, 0.95)
_MAX_PROBABILITY = 0.98  # nothing is certain
_COUNT_DECAY = 0.99  # of what was seen: after a hundred trials one counts 1/e

Counters = tuple[NDArray[np.float64], NDArray[np.float64]]


class Units(NamedTuple):
    """What [PAD]s have predicted, and what is known of such predictions.

    Attributes:
        tokens: predicted for each position, the most probable one first # [positions, k]
        chances: their probabilities # [positions, k]
        gains: accepted tokens that a [PAD] for each position has yielded # [positions]
        known: number of positions predicted, and how sure the model was of the token before them # [2]
        counters: see `UnitExperience`.
    """

    tokens: NDArray[np.int64]
    chances: NDArray[np.float64]
    gains: NDArray[np.float64]
    known: NDArray[np.int64]
    counters: Counters


def no_predictions(pads: int, breadth: int, counters: Counters) -> Units:
    """Arrays for the predictions of this many [PAD]s."""
    gains = np.array([_FIRST_YIELD * _YIELD_DECAY**pad for pad in range(pads)])
    return Units(np.empty((pads, breadth), np.int64), np.empty((pads, breadth)), gains, np.zeros(2, int), counters)


@inner
def _estimate(counters, coarse, fine, claim):
    """Correct a claim by the hits and claims of its kinds; see `UnitExperience`."""
    wide, narrow = counters
    factor = (wide[coarse, 0] + 1) / (wide[coarse, 1] + 1)
    factor = (narrow[fine, 0] + factor) / (narrow[fine, 1] + 1)
    return min(claim * factor, _MAX_PROBABILITY)


@inner
def _record(counters, coarse, fine, claim, hit):
    """Note whether a prediction was right."""
    wide, narrow = counters
    for counter in (wide[coarse], narrow[fine]):
        counter[0] = counter[0] * _COUNT_DECAY + hit
        counter[1] = counter[1] * _COUNT_DECAY + claim


@inner
def _kind(depth, rank, certainty):
    coarse = min(depth, 15) << 4 | min(rank, 15)
    return coarse, coarse << 2 | certainty


@inner
def _consider(units, heap, above, parent, depth, rank):
    """Put the combination that continues with this prediction on the heap."""
    if depth < units.known[0] and rank < units.tokens.shape[1]:
        coarse, fine = _kind(depth, rank, units.known[1])
        survival = above * _estimate(units.counters, coarse, fine, units.chances[depth, rank])
        if survival >= _MIN_SURVIVAL:
            heapq.heappush(heap, (-survival, np.int64(parent), np.int64(depth), np.int64(rank)))


@inner
def _grow(units, room, tokens, parents, survival):
    """Write down the most probable combinations of the predictions, in order; return their number."""
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0))]
    heap.pop()
    count = 0
    _consider(units, heap, 1.0, -1, 0, 0)
    while len(heap) > 0 and count < min(_MAX_GUESSES, room):
        negative, parent, depth, rank = heapq.heappop(heap)
        tokens[count], parents[count], survival[count] = units.tokens[depth, rank], parent, -negative
        _consider(units, heap, 1.0 if parent < 0 else survival[parent], parent, depth, rank + 1)
        _consider(units, heap, -negative, count, depth + 1, 0)
        count += 1
    return count


@inner
def _take(units, room, alpha, tokens, parents, survival):
    """Write down the predictions that are certain enough to be accepted without verification; return their number."""
    count = 0
    while count < min(units.known[0], room) and units.chances[count, 0] > alpha:
        tokens[count], parents[count], survival[count] = units.tokens[count, 0], count - 1, 1.0
        count += 1
    return count


@inner
def _choose(units, count, parents, survival, steps, room, hung):
    """Choose how many of the nodes, and which [PAD]s, give the most tokens per millisecond.

    A node yields its survival now. A [PAD] yields in the next step what such [PAD]s have yielded, if that step begins
    where the [PAD] hangs. All requests of a batch are assumed to draft the same number. ``hung`` is the number of
    [PAD]s behind each node, the root first # [count + 1]
    """
    pads, best, chosen = len(units.gains), 1.0 / steps[0], 0
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
            pace = worth / steps[rows] if rows > 0 else 0.0
            if pace > best:
                best, chosen = pace, nodes
                for node in range(count + 1):
                    hung[node] = some[node] if node <= nodes else 0
            likeliest, value = 0, 0.0
            for node in range(nodes + 1):
                if some[node] < pads and ends[node] * units.gains[some[node]] > value:
                    likeliest, value = node, ends[node] * units.gains[some[node]]
            if value <= 0.0 or rows >= room:
                break
            worth, rows = worth + value, rows + 1
            some[likeliest] += 1
    return chosen


@inner
def _fade(units):
    """Note that the predictions yielded nothing, and forget some of that, so that they are tried again."""
    for position in range(len(units.gains)):
        if position < units.known[0]:
            units.gains[position] -= _YIELD_RATE * units.gains[position]
        units.gains[position] += _RECOVERY_RATE * (_FIRST_YIELD * _YIELD_DECAY**position - units.gains[position])
    units.known[0] = 0


@python_or_compiled
def plan(units, steps, alpha, tokens, parents, survival):
    """Write down a draft: guesses, and behind each of them its chain of [PAD]s.

    Args:
        units: the predictions.
        steps: milliseconds of a step with 0, 1, ... rows more for each sequence # [`ROWS` + 1]
        alpha: predictions above it are taken as they are, and every position has its [PAD]; 1 for none.
        tokens: of the nodes # [at most `ROWS`]
        parents: of the nodes, -1 for the root # [as many]
        survival: of the nodes # [as many]

    Returns:
        number of guesses, number of nodes, and what the rows of the guesses cost, in steps without drafts.
    """
    room = len(tokens)
    if alpha < 1:
        guesses = _take(units, room - len(units.gains), alpha, tokens, parents, survival)
        hung = np.zeros(guesses + 1, np.int64)
        hung[guesses] = min(len(units.gains), room)
    else:
        count = _grow(units, room, tokens, parents, survival)
        hung = np.zeros(count + 1, np.int64)
        guesses = _choose(units, count, parents, survival, steps, room, hung)
    at = guesses
    for node in range(-1, guesses):
        parent = np.int64(node)
        for position in range(hung[node + 1]):
            tokens[at], parents[at], survival[at] = -1 - position, parent, 1.0 if node < 0 else survival[node]
            parent, at = np.int64(at), at + 1
    if at == 0:
        _fade(units)
    took = steps[guesses] / steps[0] - 1 if guesses > 0 else 0.0
    return guesses, at, took


@python_or_compiled
def learn(units, path, accepted, took, rows, tops, probabilities):
    """Note how good the predictions were, and store the new ones.

    Args:
        units: the predictions, replaced by the new ones.
        path: the tokens that were committed # [any]
        accepted: number of them that had been drafted.
        took: see `plan`.
        rows: of the last accepted token, and of the [PAD]s that predict what follows it # [1 or more]
        tops: the most probable tokens of each row, in order # [all rows, k], or none
        probabilities: theirs.
    """
    predicted, certainty = units.known
    for position in range(predicted):
        gain = (1.0 if accepted > position else 0.0) - took / predicted
        units.gains[position] += _YIELD_RATE * (gain - units.gains[position])
    for depth in range(min(predicted, len(path))):  # each position, as long as those before it were right
        for rank in range(units.tokens.shape[1]):
            coarse, fine = _kind(depth, rank, certainty)
            hit = units.tokens[depth, rank] == path[depth]
            _record(units.counters, coarse, fine, units.chances[depth, rank], hit)
        if path[depth] != units.tokens[depth, 0]:
            break
    units.known[0] = units.known[1] = 0
    if tops.shape[1] < units.tokens.shape[1]:
        return
    units.known[0] = len(rows) - 1
    for bound in _CONFIDENCE_BOUNDS:
        units.known[1] += probabilities[rows[0], 0] >= bound
    for position in range(len(rows) - 1):
        for rank in range(units.tokens.shape[1]):
            units.tokens[position, rank] = tops[rows[position + 1], rank]
            units.chances[position, rank] = probabilities[rows[position + 1], rank]
