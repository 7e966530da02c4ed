"""One tree of what several sources guess, and what becomes of it; see `stretto.local_engine.drafting.auto`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.compiled.counters import estimate, record
from stretto.local_engine.drafting.compiled.pace import step_ms
from stretto.local_engine.drafting.compiled.suffixes import continued
from stretto.local_engine.drafting.recycling.compiled import grown, learned
from stretto.local_engine.kernels.jit import VERSION, entry, inner

__all__ = ["NODES", "Merged", "collect", "judge", "no_guesses", "worthwhile"]

Counters = tuple[NDArray[np.float64], NDArray[np.float64]]

_CLAIMS = (0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 0.75)
NODES = 256
"""Of a tree at most, and guesses of a source; nobody looks whether there are more."""

_SUFFIX, _LOOKAHEAD, _RECYCLING = 0, 1, 2  # sources, in the order in which `Auto` names them
_WINDOW, _KEPT, _RECYCLED = 16, 24, 32  # origins of guesses; below are the suffix automaton's, by the match's length


class Merged(NamedTuple):
    """The candidates of one step, all guesses, and what is known of kinds of guesses.

    Attributes:
        tokens: of the nodes, each once # [NODES]
        parents: -1 for the root # [NODES]
        depths: 1 behind the root # [NODES]
        sources: who guessed best # [NODES]
        kept: whether they are evaluated in any case # [NODES]
        survival: probability that a node and its ancestors are right # [NODES]
        chances: that it is right where its parent is: the highest of those who guessed it # [NODES]
        guessed: kind, parent and token of each guess # [3 * NODES, 3]
        claims: probability that its source gave it # [3 * NODES]
        guesses: counters of them, see `Calibration`.
        agreement: the same of the highest of several guesses.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    depths: NDArray[np.int64]
    sources: NDArray[np.int64]
    kept: NDArray[np.bool_]
    survival: NDArray[np.float64]
    chances: NDArray[np.float64]
    guessed: NDArray[np.int64]
    claims: NDArray[np.float64]
    guesses: Counters
    agreement: Counters


@inner
def _bin(claim):
    found = 0
    for bound in _CLAIMS:
        found += claim >= bound
    return found


@inner
def _node(merged, count, token, parent):
    """The node with this token and parent among the first ``count``; ``count`` if there is none."""
    node = 0
    while node < count and not (merged.tokens[node] == token and merged.parents[node] == parent):
        node += 1
    return node


@inner
def _note(merged, node, is_new, number, origin, claim, source):
    """Enter a guess with its calibrated probability; ``origin`` is its source with the source's evidence."""
    parent = merged.parents[node]
    merged.depths[node] = 1 if parent < 0 else merged.depths[parent] + 1
    fine = (8 * origin + _bin(claim)) * 4 + min(merged.depths[node] - 1, 3)
    merged.guessed[number, 0], merged.guessed[number, 1], merged.guessed[number, 2] = fine, parent, merged.tokens[node]
    merged.claims[number] = claim
    chance = estimate(merged.guesses, _coarse(fine), fine, claim)
    if is_new or chance > merged.chances[node]:
        merged.chances[node], merged.sources[node] = chance, source


@inner
def _coarse(fine):
    """Leave evidence and depth out of a kind of guess: its source and claim."""
    return (fine >> 8 << 3) | (fine >> 2 & 7)


@inner
def _merge(merged, count, number, tree, places, origin, source):
    """Enter a source's tree, and write down where its nodes are; how many nodes and guesses there are then."""
    tokens, parents, survival, kept = tree
    for own in range(len(places)):
        parent, claim = np.int64(-1), survival[own]
        if parents[own] >= 0:
            parent, claim = places[parents[own]], survival[own] / survival[parents[own]]
        node = _node(merged, count, tokens[own], parent)
        if node == count:
            merged.tokens[node], merged.parents[node], merged.kept[node] = tokens[own], parent, False
        places[own] = node
        merged.kept[node] |= kept[own]
        _note(merged, node, node == count, number, origin + (_KEPT - _WINDOW) * kept[own], claim, source)
        count, number = max(count, node + 1), number + 1
    return count, number


@inner
def _settle(merged, count, chances):
    """Work out every survival; of all siblings, at most one is right."""
    total = np.zeros(count + 1)
    for node in range(count):
        total[merged.parents[node] + 1] += chances[node]
    for node in range(count):
        parent = merged.parents[node]
        above = 1.0 if parent < 0 else merged.survival[parent]
        merged.survival[node] = above * chances[node] / max(total[parent + 1], 1.0)


def no_guesses(guesses: Counters, agreement: Counters) -> Merged:
    """Room for the candidates of a step, by what is known of guesses."""
    return Merged(
        tokens=np.empty(NODES, np.int64),
        parents=np.empty(NODES, np.int64),
        depths=np.empty(NODES, np.int64),
        sources=np.empty(NODES, np.int64),
        kept=np.zeros(NODES, np.bool_),
        survival=np.empty(NODES),
        chances=np.empty(NODES),
        guessed=np.empty((3 * NODES, 3), np.int64),
        claims=np.empty(3 * NODES),
        guesses=guesses,
        agreement=agreement,
    )


@inner
def worthwhile(merged, count, costs, most):
    """The nodes that are worth their rows, in order, and where the parents of these are among them."""
    left, order = np.ones(count, np.bool_), np.empty(count, np.int64)
    tokens, best, chosen = 1.0, 1.0 / costs[1], count if most < 0 else 0
    for taken in range(min(count, most)):
        likeliest = -1
        for node in range(count):  # of equals the first: parents are
            if left[node] and (likeliest < 0 or merged.survival[node] > merged.survival[likeliest]):
                likeliest = node
        left[likeliest], order[taken] = False, likeliest
        tokens += merged.survival[likeliest]
        pace = tokens / step_ms(costs, taken + 1)
        if pace > best:
            best, chosen = pace, taken + 1
    if most >= 0:
        left[:] = True
        for taken in range(chosen):
            left[order[taken]] = False
    nodes, place = np.empty(chosen, np.int64), 0
    for node in range(count):
        if most < 0 or not left[node]:
            nodes[place] = node
            place += 1
    places, parents = np.empty(count, np.int64), np.empty(chosen, np.int64)
    for place in range(chosen):
        parent = merged.parents[nodes[place]]
        places[nodes[place]], parents[place] = place, -1 if parent < 0 else places[parent]
    return nodes, parents


@entry
def collect(merged, texts, sizes, given, places, successors, costs, chosen, version=VERSION):  # noqa: ARG001
    """Ask every source.

    Args:
        merged: where to.
        texts: the first of what `continued` takes, and the last committed token.
        sizes: tokens of a substring that is counted, of a match at least, nodes of the suffixes, of all, and depth of
            what is recycled.
        given: a tree: tokens, parents, survival and whether kept # [nodes] each
        places: where its nodes are then # [nodes]
        successors: for recycling.
        costs: see `StepCost.curve`.
        chosen: how many nodes may be evaluated; any of them where that is below 0.
        version: see `VERSION`.

    Returns:
        how many nodes and guesses there are, how long the longest match is, the nodes with which a step gives the most
        expected tokens a millisecond, in order, and where the parents of these are among them # [chosen] each
    """
    text, answers, cursor, new, root = texts
    counted, shortest, limit, most, depth = sizes
    tokens, parents, survival = np.empty(limit, np.int64), np.empty(limit, np.int64), np.empty(limit)
    found, match = continued(text, answers, cursor, new, counted, shortest, tokens, parents, survival)
    evidence = 0
    while match >> evidence > 0 and evidence < 7:
        evidence += 1
    own, some = (tokens, parents, survival, np.zeros(found, np.bool_)), np.empty(found, np.int64)
    count, number = _merge(merged, 0, 0, own, some, evidence, _SUFFIX)
    count, number = _merge(merged, count, number, given, places, _WINDOW, _LOOKAHEAD)
    _settle(merged, count, merged.chances)
    tree = (merged.tokens, merged.parents, merged.survival, merged.depths)
    nodes, claims, before = np.empty(NODES, np.int64), np.empty(NODES), count
    count, guessed = grown(successors, root, most, depth, tree, count, nodes, claims)
    merged.kept[before:count] = False
    for place in range(guessed):
        node = nodes[place]
        _note(merged, node, node >= before, number, np.int64(_RECYCLED), claims[place], _RECYCLING)
        before, number = max(before, node + 1), number + 1
    corrected = np.empty(count)
    for node in range(count):
        claimed, chance = _bin(merged.chances[node]), merged.chances[node]
        fine = min(merged.depths[node], 63) << 3 | claimed
        corrected[node] = estimate(merged.agreement, claimed, fine, chance)
    _settle(merged, count, corrected)
    return count, number, match, *worthwhile(merged, count, costs, chosen)


@entry
def judge(merged, counts, path, rows, successors, tops, probabilities, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """Learn from what became of the guesses, of those that were not evaluated too.

    Args:
        merged: the candidates.
        counts: how many nodes and guesses there are.
        path: the token behind which they began, and those that were committed.
        rows: of the nodes; -1 where one was not evaluated # [nodes]
        successors: see `learned`.
        tops: see there.
        probabilities: see there.
        version: see `VERSION`.

    Returns:
        how many nodes but the kept ones were evaluated, and how many of them were expected to be right.
    """
    count, number = counts
    following, reached = np.full(count + 1, -1, np.int64), np.int64(-1)
    for place in range(1, len(path)):
        following[reached + 1] = path[place]
        reached = np.int64(_node(merged, count, path[place], reached))
        if reached == count:
            break
    for guess in range(number):
        fine, parent = merged.guessed[guess, 0], merged.guessed[guess, 1]
        if following[parent + 1] >= 0:
            hit = following[parent + 1] == merged.guessed[guess, 2]
            record(merged.guesses, _coarse(fine), fine, merged.claims[guess], hit)
    evaluated, expected = 0, 0.0
    for node in range(count):
        parent = merged.parents[node]
        if following[parent + 1] >= 0:
            claimed, chance = _bin(merged.chances[node]), merged.chances[node]
            hit = following[parent + 1] == merged.tokens[node]
            record(merged.agreement, claimed, min(merged.depths[node], 63) << 3 | claimed, chance, hit)
        if rows[node] >= 0 and not merged.kept[node]:
            evaluated += 1
            expected += merged.survival[node]
    learned(successors, path, merged.tokens[:count], rows, tops, probabilities)
    return evaluated, expected
