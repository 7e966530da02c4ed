"""Verification: find the drafted tokens that the model would have chosen itself, and the token it chooses next.

The tree is walked from the root. The token that the model chooses after a row is compared with the row's children. If
one of them has that token, it is accepted, and the walk continues there. If not, the chosen token is committed as
the bonus token, and the walk ends. So every forward commits at least one token, and each is the one that would have
been chosen without a draft: the most probable one, or the one drawn with the random numbers of its position, with
temperature, limits, penalties, bias and constraint. Since these numbers depend on the position in the answer, a seed
gives the same answer under every method.

Comparing the drawn token with a draft of fixed tokens accepts each with the model's own probability, as the rule of
Leviathan et al. (arXiv:2211.17192) and Chen et al. (arXiv:2302.01318) does for a draft that is a point mass. A draft
that is itself drawn from a distribution is accepted more often if it was drawn with the same random numbers: see
`DraftModel`.

Lossy methods trust some of their nodes: these are accepted even if another token was chosen; see `DraftTree.trusted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from stretto.local_engine.choosing.device_sampling import choose_at_once, highest_or_none
from stretto.local_engine.choosing.sampling import Sampler, choose, first_rows, most_probable
from stretto.local_engine.draft_tree import ROOT, DraftTree


@dataclass(slots=True)
class Verified:
    """Tokens that a step commits to one sequence.

    Attributes:
        nodes: accepted nodes of the draft, in order.
        tokens: tokens of these nodes, then the bonus token. Nothing follows an end token.
        changed: number of trusted nodes that the model would not have chosen.
    """

    nodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    changed: int = 0


def verify(
    logits: Tensor, trees: Sequence[DraftTree], samplers: Sequence[Sampler], ends: Sequence[frozenset[int]]
) -> list[Verified]:
    """Walk down each sequence's tree, and return what is committed to it.

    Args:
        logits: those after each sequence's last committed token, then after its nodes # [batch, 1 + nodes, vocabulary]
        trees: draft of each sequence.
        samplers: sampler of each sequence.
        ends: end tokens of each sequence; nothing is accepted after one.
    """
    if all(sampler.plain for sampler in samplers):
        # The token after a row does not depend on its path, so all are chosen at once, with one copy to the host.
        counts = [1 + len(tree) for tree in trees]
        highest: Callable[[Tensor], Tensor] = most_probable if logits.device.type == "cpu" else highest_or_none
        if min(counts) == logits.shape[1]:
            own = highest(logits).tolist()
        else:
            chosen = iter(highest(first_rows(logits, counts)).tolist())
            own = [list(islice(chosen, count)) for count in counts]
        verdicts = [_walk(*given) for given in zip(own, trees, ends, strict=True)]
        if logits.device.type == "cpu":
            _look_at(logits, verdicts, samplers)
    elif logits.device.type == "cpu":
        return _walk_together(logits, trees, samplers, ends, range(len(trees)))
    else:
        verdicts = _choose_then_walk(logits, trees, samplers, ends)
    for verdict, sampler in zip(verdicts, samplers, strict=True):
        if min(verdict.tokens) < 0:
            sampler.found_no_number()
            verdict.tokens = [max(0, token) for token in verdict.tokens]
    return verdicts


def _look_at(logits: Tensor, verdicts: Sequence[Verified], samplers: Sequence[Sampler]) -> None:
    """Notify the samplers whose tokens were chosen from invalid logits: the highest of a row is NaN or infinite."""
    numbers: Any = logits if logits.dtype == torch.bfloat16 else logits.numpy()  # many times as fast for single numbers
    for number, (verdict, sampler) in enumerate(zip(verdicts, samplers, strict=True)):
        rows = (0, *(node + 1 for node in verdict.nodes))
        if not all(numbers[number, row, token] < math.inf for row, token in zip(rows, verdict.tokens, strict=True)):
            sampler.found_no_number()


def _walk(chosen: Sequence[int], tree: DraftTree, ends: frozenset[int]) -> Verified:
    verdict, node = Verified(), ROOT
    while not _step(verdict, tree, node, chosen[node + 1], ends):
        node = verdict.nodes[-1]
    return verdict


def _choose_then_walk(
    logits: Tensor, trees: Sequence[DraftTree], samplers: Sequence[Sampler], ends: Sequence[frozenset[int]]
) -> list[Verified]:
    """Choose the token after every row, with one copy to the host, then walk.

    A constraint's parser takes time on the host for each row. So requests with a constraint choose only after the
    rows that the walk reaches, with one copy to the host for each token of the longest walk.
    """
    constrained = [number for number, sampler in enumerate(samplers) if sampler.constrained]
    counts = [0 if sampler.constrained else 1 + len(tree) for sampler, tree in zip(samplers, trees, strict=True)]
    verdicts = _walk_together(logits, trees, samplers, ends, constrained)
    if any(counts):
        owners = [sampler for sampler, count in zip(samplers, counts, strict=True) for _ in range(count)]
        paths = [path for tree, count in zip(trees, counts, strict=True) if count for path in _paths(tree)]
        chosen = iter(choose_at_once(first_rows(logits, counts), owners, paths))
        for number, count in enumerate(counts):
            if count:
                verdicts[number] = _walk(list(islice(chosen, count)), trees[number], ends[number])
    return verdicts


def _paths(tree: DraftTree) -> list[list[int]]:
    """Return the drafted tokens that lead to each row, the root's first."""
    paths: list[list[int]] = [[]]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append([*paths[parent + 1], token])
    return paths


def _walk_together(
    logits: Tensor,
    trees: Sequence[DraftTree],
    samplers: Sequence[Sampler],
    ends: Sequence[frozenset[int]],
    numbers: Sequence[int],
) -> list[Verified]:
    """Choose only after the rows that the walks reach, for all these sequences together.

    On a CPU, choosing a token costs more than walking.
    """
    verdicts = [Verified() for _ in trees]
    walking, after = list(numbers), choose if logits.device.type == "cpu" else choose_at_once
    while walking:
        nodes = [verdicts[number].nodes[-1] if verdicts[number].nodes else ROOT for number in walking]
        if len(walking) == len(trees) and all(node == ROOT for node in nodes):
            rows = logits[:, 0]
        else:
            indices = torch.tensor((walking, nodes), device=logits.device)
            rows = logits[indices[0], indices[1] + 1]
        paths = [verdicts[number].tokens for number in walking]
        chosen = after(rows, [samplers[number] for number in walking], paths)
        walking = [
            number
            for number, node, token in zip(walking, nodes, chosen, strict=True)
            if not _step(verdicts[number], trees[number], node, token, ends[number])
        ]
    return verdicts


def _step(verdict: Verified, tree: DraftTree, node: int, token: int, ends: frozenset[int]) -> bool:
    """Commit the token chosen after ``node``, and return whether the walk ends with it."""
    if tree.trusted and (trusted := tree.trusted.get(node)) is not None:
        verdict.changed += token != tree.tokens[trusted]
        token = tree.tokens[trusted]
    verdict.tokens.append(token)
    child = None if token in ends else tree.child(node, token)
    if child is None:
        return True
    verdict.nodes.append(child)
    return False
