"""Compiled code that makes drafts from the predictions of [PAD] rows, and chooses [PAD]s that are worth their rows."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.compiling.jit import inner, python_or_compiled

ROWS = 24
"""Maximum number of rows of a draft."""

_MAX_GUESSES = 12
_MIN_SURVIVAL = 0.02  # nothing is drafted below it
_FIRST_YIELD = 0.6  # initial yield of the first position, in accepted tokens
_YIELD_DECAY = 0.65  # initial yield of each position, relative to the previous one
_YIELD_RATE = 1 / 16  # learning rate of the yields
_RECOVERY_RATE = 1 / 32  # rate of return to the initial yield, while nothing is drafted
_CONFIDENCE_BOUNDS = (0.5, 0.8, 0.95)
_MAX_PROBABILITY = 0.98  # no prediction is certain
_COUNT_DECAY = 0.99  # decay of counts: after a hundred trials one counts 1/e

Counters = tuple[NDArray[np.float64], NDArray[np.float64]]


class Units(NamedTuple):
    """Predictions of [PAD]s, and statistics of such predictions.

    Attributes:
        tokens: predicted tokens of each position, the most probable one first # [positions, k]
        chances: their probabilities # [positions, k]
        gains: yield of a [PAD] for each position, in accepted tokens # [positions]
        known: number of predicted positions, and certainty class of the token before them # [2]
        counters: see `UnitExperience`.
    """

    tokens: NDArray[np.int64]
    chances: NDArray[np.float64]
    gains: NDArray[np.float64]
    known: NDArray[np.int64]
    counters: Counters


def no_predictions(pads: int, breadth: int, counters: Counters) -> Units:
    """Return empty arrays for the predictions of this many [PAD]s."""
    gains = np.array([_FIRST_YIELD * _YIELD_DECAY**pad for pad in range(pads)])
    return Units(np.empty((pads, breadth), np.int64), np.empty((pads, breadth)), gains, np.zeros(2, int), counters)


@inner
def _estimate(counters, coarse, fine, claim):
    """Return a claim corrected by the hits and claims of its kinds; see `UnitExperience`."""
    wide, narrow = counters
    factor = (wide[coarse, 0] + 1) / (wide[coarse, 1] + 1)
    factor = (narrow[fine, 0] + factor) / (narrow[fine, 1] + 1)
    return min(claim * factor, _MAX_PROBABILITY)


@inner
def _record(counters, coarse, fine, claim, hit):
    """Record whether a prediction was right."""
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
    """Push the combination that continues with this prediction."""
    if depth < units.known[0] and rank < units.tokens.shape[1]:
        coarse, fine = _kind(depth, rank, units.known[1])
        survival = above * _estimate(units.counters, coarse, fine, units.chances[depth, rank])
        if survival >= _MIN_SURVIVAL:
            heapq.heappush(heap, (-survival, np.int64(parent), np.int64(depth), np.int64(rank)))


@inner
def _grow(units, room, tokens, parents, survival):
    """Write the most probable combinations of the predictions, in order, and return their number."""
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
    """Write the predictions that are certain enough to be accepted without verification, and return their number."""
    count = 0
    while count < min(units.known[0], room) and units.chances[count, 0] > alpha:
        tokens[count], parents[count], survival[count] = units.tokens[count, 0], count - 1, 1.0
        count += 1
    return count


@inner
def _choose(units, count, parents, survival, steps, room, hung):
    """Choose the number of nodes, and the [PAD]s, that give the most tokens per millisecond; return the number.

    A node yields its survival in this step. A [PAD] yields as much as such [PAD]s have yielded, in the next step, if
    that begins at the [PAD]'s node. All requests of a batch are assumed to draft the same number. ``hung``: output,
    number of [PAD]s after each node, the root first # [count + 1]
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
    """Lower the yields of unused predictions, and let all yields recover a little, so that [PAD]s are tried again."""
    for position in range(len(units.gains)):
        if position < units.known[0]:
            units.gains[position] -= _YIELD_RATE * units.gains[position]
        units.gains[position] += _RECOVERY_RATE * (_FIRST_YIELD * _YIELD_DECAY**position - units.gains[position])
    units.known[0] = 0


@python_or_compiled
def plan(units, steps, alpha, tokens, parents, survival):
    """Write a draft: guesses, then the chain of [PAD]s after each of them.

    Args:
        units: the predictions.
        steps: milliseconds of a step with 0, 1, ... further rows for each sequence # [`ROWS` + 1]
        alpha: predictions above it are accepted without verification, and every position has its [PAD]; 1 for none.
        tokens: output, token of each node # [at most `ROWS`]
        parents: output, parent of each node, -1 for the root # [as many]
        survival: output, survival of each node # [as many]

    Returns:
        number of guesses, number of nodes, and the cost of the guesses' rows, in steps without drafts.
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
    """Record how good the predictions were, and store the new ones.

    Args:
        units: the predictions, which are replaced by the new ones.
        path: the tokens that were committed # [any]
        accepted: number of them that had been drafted.
        took: see `plan`.
        rows: row of the last accepted token, then those of the [PAD]s that predict what follows it # [1 or more]
        tops: the most probable tokens of each row, in order # [all rows, k], or none
        probabilities: probabilities of ``tops``.
    """
    predicted, certainty = units.known
    for position in range(predicted):
        gain = (1.0 if accepted > position else 0.0) - took / predicted
        units.gains[position] += _YIELD_RATE * (gain - units.gains[position])
    for depth in range(min(predicted, len(path))):  # positions up to the first wrong one
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
