"""Token recycling: the most probable successors that the model gave a token are guessed when it occurs again."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["TokenRecycling"]

_KEPT = 0.98  # of what is known about a rank, at each token


class TokenRecycling:
    """Keeps the top-k successors of each token as the model last gave them, and drafts the tree they span.

    Every row is a source, those of rejected tokens too: nothing that the model computed is thrown away. The tree grows
    by its most probable node. A successor of rank r is right with the probability ``(share[r] + p[r]) / 2``: how often
    that rank was right so far, and how probable the model held it last time. So the tree is broad where the ranks are
    close, and deep where the first one is clear.

    Luo et al., arXiv:2408.08696 (Token Recycling), where the shape of the tree is fixed.

    Args:
        breadth: k, successors kept of each token.
        depth: tokens of a path at most.
    """

    name = "token_recycling"

    def __init__(self, breadth: int = 8, depth: int = 6) -> None:
        self.wants_top = breadth
        self._depth = depth
        self._share = [0.4 * 0.5**rank for rank in range(breadth)]
        self._successors: dict[int, tuple[list[int], list[float]]] = {}  # tokens and probabilities, by token
        self._drafted: list[int] = []

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        tree, depths, root = DraftTree(), [0], context.tokens[-1]
        heap: list[tuple[float, int, int, int]] = []  # -survival, parent, rank, token
        self._push(heap, root, ROOT, 0, 1.0)
        while heap and len(tree) < rows:
            negative, parent, rank, token = heappop(heap)
            node = tree.add(token, parent, -negative)
            depths.append(depths[parent + 1] + 1)
            if depths[-1] < self._depth:
                self._push(heap, token, node, 0, -negative)
            if parent == ROOT:
                self._push(heap, root, ROOT, rank + 1, 1.0)
            else:
                self._push(heap, tree.tokens[parent], parent, rank + 1, tree.survival[parent])
        self._drafted = tree.tokens
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`."""
        path = context.tokens[-len(outcome.path) - 1 :]
        for token, following in pairwise(path):
            if token in self._successors:
                tokens, _ = self._successors[token]
                self._share = [
                    share + (1 - _KEPT) * ((successor == following) - share)
                    for share, successor in zip(self._share, tokens, strict=True)
                ]
        if outcome.top_tokens.shape[1] == self.wants_top:  # there are fewer where the vocabulary is smaller
            tokens_by_row, probabilities = outcome.top_tokens.tolist(), outcome.top_probabilities.tolist()
            for token, row in zip((path[0], *self._drafted), (0, *outcome.rows), strict=False):
                if row >= 0:
                    self._successors[token] = tokens_by_row[row], probabilities[row]
        self._drafted = []

    def _push(self, heap: list[tuple[float, int, int, int]], token: int, node: int, rank: int, survival: float) -> None:
        """Consider the successor of this rank behind a node; the next rank follows when this one is taken."""
        if rank < len(self._share) and token in self._successors:
            tokens, probabilities = self._successors[token]
            chance = (self._share[rank] + probabilities[rank]) / 2
            heappush(heap, (-survival * chance, node, rank, tokens[rank]))
