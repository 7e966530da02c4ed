"""Token recycling: what the model held probable behind a token last time, it may say behind it next time."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.protocol import Context, Outcome
from stretto.local_engine.drafting.recycling.compiled import Successors, grow, learn

__all__ = ["TokenRecycling", "no_successors"]


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
        self._successors: Successors | None = None
        self._drafted = np.empty(0, np.int64)

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        tokens, parents, survival = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)
        count = grow(self._known(context), context.tokens[-1], self._depth, tokens, parents, survival)
        self._drafted = tokens[:count]
        return DraftTree.of(self._drafted.tolist(), parents[:count].tolist(), survival[:count].tolist())

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`."""
        path = np.array(context.tokens[-len(outcome.path) - 1 :], np.int64)
        rows = np.array(outcome.rows, np.int64)
        learn(self._known(context), path, self._drafted, rows, outcome.top_tokens, outcome.top_probabilities)
        self._drafted = np.empty(0, np.int64)

    def _known(self, context: Context) -> Successors:
        if self._successors is None:
            self._successors = no_successors(context.vocabulary, self.wants_top)
        return self._successors


def no_successors(vocabulary: int, breadth: int) -> Successors:
    """None known yet, of no token; most systems give the memory when a token is seen."""
    shape = vocabulary, breadth
    share = np.array([0.4 * 0.5**rank for rank in range(breadth)])
    return Successors(np.zeros(vocabulary, np.bool_), np.zeros(shape, np.int32), np.zeros(shape, np.float32), share)
