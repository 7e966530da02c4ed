"""Token recycling: what the model held probable behind a token last time, it may say behind it next time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from stretto.local_engine.drafting.protocol import ROOT, Context, DraftTree, Outcome

__all__ = ["TokenRecycling"]

_FORGET = 0.98


class TokenRecycling:
    """Keeps the top-k successors of each token as the model last saw them, and drafts the tree they span.

    Every row is a source, those of rejected tokens too: nothing the model has computed is thrown away. The tree
    grows by its most probable node. That the successor of rank r is right has the probability
    ``(share[r] + p[r]) / 2``: how often that rank was right so far, and how probable the model held it last time;
    so the tree is broad where ranks are close, and deep where the first is clear.

    Luo et al., arXiv:2408.08696 (Token Recycling), where the tree is fixed.

    Args:
        breadth: k, successors kept of each token.
        depth: tokens of a path at most.
    """

    name = "token_recycling"

    def __init__(self, breadth: int = 8, depth: int = 6) -> None:
        self.wants_top = breadth
        self._depth = depth
        self._successors: dict[int, tuple[Sequence[int], Sequence[float]]] = {}
        self._share = [0.4 * 0.5**rank for rank in range(breadth)]
        self._drafted: Sequence[int] = ()

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        tree = DraftTree()
        self.grow(tree, context.tokens[-1], rows)
        return tree

    def grow(self, tree: DraftTree, root: int, rows: int) -> list[tuple[int, float]]:
        """Add nodes to a draft after ``root``, anywhere in it, until it has so many rows.

        Returns:
            the nodes it would have added, whether they were there or not, and the probability that each is right
            where its parent is.
        """
        found: list[tuple[int, float]] = []
        depths = tree.depths()
        heap: list[tuple[float, int, int, int, float]] = []  # -survival, parent, rank, token, its own probability
        self._consider(heap, root, ROOT, 0, 1.0)
        for node, token in enumerate(tree.tokens):
            if depths[node] < self._depth:
                self._consider(heap, token, node, 0, tree.survival[node])
        while heap and len(tree) < rows:
            negative, parent, rank, token, chance = heapq.heappop(heap)
            known, node = len(tree), tree.add(token, parent, -negative, source=self.name)
            found.append((node, chance))
            above, survival = (root, 1.0) if parent == ROOT else (tree.tokens[parent], tree.survival[parent])
            self._consider(heap, above, parent, rank + 1, survival)
            if node == known:
                depths.append(1 if parent == ROOT else depths[parent] + 1)
                if depths[node] < self._depth:
                    self._consider(heap, token, node, 0, -negative)
        self._drafted = tree.tokens
        return found

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`."""
        start = len(context.tokens) - len(outcome.path)  # row 0 is that of the token before it
        self._rate(context.tokens[start - 1 :])
        rows = {0: context.tokens[start - 1]} if outcome.top_tokens else {}
        rows.update((row, token) for token, row in zip(self._drafted, outcome.rows, strict=False) if row > 0)
        for row, token in rows.items():
            self._successors[token] = outcome.top_tokens[row], outcome.top_probabilities[row]
        self._drafted = ()

    def _consider(
        self, heap: list[tuple[float, int, int, int, float]], token: int, node: int, rank: int, survival: float
    ) -> None:
        """Put the successor of this rank on the heap; the next rank follows when it is taken."""
        candidates, probabilities = self._successors.get(token, ((), ()))
        if rank < min(len(candidates), len(self._share)):
            chance = (self._share[rank] + probabilities[rank]) / 2
            heapq.heappush(heap, (-survival * chance, node, rank, candidates[rank], chance))

    def _rate(self, tokens: list[int]) -> None:
        """Note which rank was right at each of the committed tokens."""
        for token, following in itertools.pairwise(tokens):
            candidates, _ = self._successors.get(token, ((), ()))
            for rank in range(min(len(candidates), len(self._share))):
                hit = candidates[rank] == following
                self._share[rank] += (1 - _FORGET) * (hit - self._share[rank])
