"""Successors of tokens as a model last saw them; see `stretto.local_engine.drafting.recycling.drafter`."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.jit import VERSION, entry, inner

__all__ = ["Successors", "grow", "grown", "learn", "learned"]

_KEPT = 0.98


class Successors(NamedTuple):
    """What the model held probable behind each token.

    Attributes:
        known: whether it was seen # [vocabulary]
        tokens: the most probable one first # [vocabulary, k]
        probabilities: of these # [vocabulary, k]
        share: how often each rank was right # [k]
    """

    known: NDArray[np.bool_]
    tokens: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    share: NDArray[np.float64]


@inner
def _consider(successors, heap, token, node, rank, survival):
    """Put the successor of this rank on the heap; the next rank follows when it is taken."""
    if 0 <= token < len(successors.known) and successors.known[token] and rank < len(successors.share):
        chance = (successors.share[rank] + successors.probabilities[token, rank]) / 2
        following = np.int64(successors.tokens[token, rank])
        heapq.heappush(heap, (-survival * chance, np.int64(node), np.int64(rank), following, chance))


@inner
def grown(successors, root, rows, most, tree, count, found, claims):
    """Add nodes to a tree behind ``root``, anywhere in it, until it has so many rows.

    Args:
        successors: of the tokens.
        root: the last committed token.
        rows: of the tree at most.
        most: tokens of a path.
        tree: tokens, parents, survival, and depth, 1 behind the root # [rows or more]
        count: nodes that it has.
        found: the nodes that would have been added, whether they were there or not # [many]
        claims: probability that each is right where its parent is # [many]

    Returns:
        how many nodes the tree has now, and how many were found.
    """
    tokens, parents, survival, depths = tree
    heap = [(0.0, np.int64(0), np.int64(0), np.int64(0), 0.0)]
    heap.pop()
    _consider(successors, heap, root, -1, 0, 1.0)
    for node in range(count):
        if depths[node] < most:
            _consider(successors, heap, tokens[node], node, 0, survival[node])
    number = 0
    while len(heap) > 0 and count < rows and number < len(found):
        negative, parent, rank, token, chance = heapq.heappop(heap)
        node = 0
        while node < count and not (tokens[node] == token and parents[node] == parent):
            node += 1
        if node == count:
            tokens[node], parents[node], survival[node] = token, parent, -negative
            depths[node] = 1 if parent < 0 else depths[parent] + 1
            count += 1
            if depths[node] < most:
                _consider(successors, heap, token, node, 0, -negative)
        else:
            survival[node] = max(survival[node], -negative)
        found[number], claims[number] = node, chance
        number += 1
        above = root if parent < 0 else tokens[parent]
        _consider(successors, heap, above, parent, rank + 1, 1.0 if parent < 0 else survival[parent])
    return count, number


@entry
def grow(successors, root, most, tokens, parents, survival, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """See `grown`; as many nodes as there is room for, in a new tree."""
    rows = len(tokens)
    tree = (tokens, parents, survival, np.empty(rows, np.int64))
    return grown(successors, root, rows, most, tree, 0, np.empty(rows, np.int64), np.empty(rows))[0]


@inner
def learned(successors, path, tokens, rows, tops, probabilities):
    """Note what became of a draft.

    Args:
        successors: what is changed.
        path: the token behind which it began, and those that were committed.
        tokens: of the nodes.
        rows: of the nodes; -1 where one was left out.
        tops: the most probable tokens of each row, in order # [rows, k or none]
        probabilities: theirs # [rows, k or none]
    """
    share, vocabulary = successors.share, len(successors.known)
    for place in range(len(path) - 1):
        token = path[place]
        if 0 <= token < vocabulary and successors.known[token]:
            for rank in range(len(share)):
                hit = 1.0 if successors.tokens[token, rank] == path[place + 1] else 0.0
                share[rank] += (1 - _KEPT) * (hit - share[rank])
    if tops.shape[0] == 0 or tops.shape[1] < len(share):
        return
    for node in range(-1, len(tokens)):
        row, token = (0, path[0]) if node < 0 else (rows[node], tokens[node])
        if row >= 0 and 0 <= token < vocabulary:
            successors.known[token] = True
            for rank in range(len(share)):
                successors.tokens[token, rank] = tops[row, rank]
                successors.probabilities[token, rank] = probabilities[row, rank]


@entry
def learn(successors, path, tokens, rows, tops, probabilities, version=VERSION):  # noqa: ARG001 - see `VERSION`
    """See `learned`."""
    learned(successors, path, tokens, rows, tops, probabilities)
