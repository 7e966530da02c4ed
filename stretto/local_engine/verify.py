"""Verification: which drafted tokens the model would have chosen itself, and the one it chooses after them.

Both ways walk the tree from the root. What the model chooses after a row is compared with the row's children: if
one of them has that token, it is accepted and the walk goes on there; if none has, the chosen token is committed as
well, the bonus token. So every forward commits at least one token, and each is the one that would have been
chosen without a draft: the most probable one, or the one that the random numbers of its place draw from the
distribution, with temperature, limits, penalties, bias and constraint. Since those numbers belong to the place in the
answer, a seed gives the same answer under every method.

Comparing the drawn token with a draft of fixed tokens accepts each with the model's own probability, as the rule of
Leviathan et al. (arXiv:2211.17192) and Chen et al. (arXiv:2302.01318) does for a draft that is a point mass. A draft
that is itself drawn from a distribution is accepted more often if it was drawn with the same random numbers: see
`DraftModel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor

from stretto.local_engine.drafting.protocol import ROOT, DraftTree
from stretto.local_engine.sampling import Sampler, choose, first_rows, most_probable

__all__ = ["Verdict", "verify"]


@dataclass(slots=True)
class Verdict:
    """What a step commits to one sequence.

    Attributes:
        nodes: of the draft that were accepted, in order.
        tokens: theirs, and the bonus token last. An end token is always the last.
        changed: of the nodes that were to be trusted, those that would not have been chosen.
    """

    nodes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    changed: int = 0


def verify(
    logits: Tensor, trees: Sequence[DraftTree], samplers: Sequence[Sampler], ends: Sequence[frozenset[int]]
) -> list[Verdict]:
    """Walk down each sequence's tree.

    Args:
        logits: of each sequence's last committed token, then of its nodes # [batch, 1 + nodes, vocabulary]
        trees: the nodes.
        samplers: how each sequence chooses.
        ends: each sequence's end tokens; nothing is accepted behind one.
    """
    if all(sampler.plain for sampler in samplers):
        # What follows any row does not depend on how it was reached: all at once, one copy to the host.
        counts = [1 + len(tree) for tree in trees]
        if min(counts) == logits.shape[1]:
            own = most_probable(logits).tolist()
        else:
            chosen = iter(most_probable(first_rows(logits, counts)).tolist())
            own = [list(islice(chosen, count)) for count in counts]
        return [_walk(*given) for given in zip(own, trees, ends, strict=True)]
    return _walk_together(logits, trees, samplers, ends)


def _walk(chosen: Sequence[int], tree: DraftTree, ends: frozenset[int]) -> Verdict:
    verdict, node = Verdict(), ROOT
    while not _step(verdict, tree, node, chosen[node + 1], ends):
        node = verdict.nodes[-1]
    return verdict


def _walk_together(
    logits: Tensor, trees: Sequence[DraftTree], samplers: Sequence[Sampler], ends: Sequence[frozenset[int]]
) -> list[Verdict]:
    """Choose only where the walks come by, all sequences one step after the other: a choice costs more than a step."""
    verdicts = [Verdict() for _ in trees]
    walking = list(range(len(trees)))
    while walking:
        nodes = [verdicts[number].nodes[-1] if verdicts[number].nodes else ROOT for number in walking]
        if len(walking) == len(trees) and all(node == ROOT for node in nodes):
            rows = logits[:, 0]
        else:
            places = torch.tensor((walking, nodes), device=logits.device)
            rows = logits[places[0], places[1] + 1]
        paths = [verdicts[number].tokens for number in walking]
        chosen = choose(rows, [samplers[number] for number in walking], paths)
        walking = [
            number
            for number, node, token in zip(walking, nodes, chosen, strict=True)
            if not _step(verdicts[number], trees[number], node, token, ends[number])
        ]
    return verdicts


def _step(verdict: Verdict, tree: DraftTree, node: int, token: int, ends: frozenset[int]) -> bool:
    """Commit the token chosen after ``node``; whether the walk ends with it."""
    if tree.trusted and (trusted := tree.trusted.get(node)) is not None:
        verdict.changed += token != tree.tokens[trusted]
        token = tree.tokens[trusted]
    verdict.tokens.append(token)
    child = None if token in ends else tree.child(node, token)
    if child is None:
        return True
    verdict.nodes.append(child)
    return False
