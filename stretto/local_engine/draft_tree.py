"""Drafts: guesses at what comes next in one sequence, as a tree of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stretto.local_engine.drafting.step_cost import StepCost

ROOT = -1
"""Parent of a draft's first tokens: the last committed token, which is not a node of the draft."""


@dataclass(slots=True)
class DraftTree:
    """Guesses at what comes next, as a tree: each path from the root is one continuation.

    Provisional: it may change in any release.

    Every kind of draft is one: a chain (prompt lookup), multiple chains (n-grams), a real tree (top-k
    successors), and the window of lookahead decoding (Fu et al., arXiv:2402.02057): its level 0 is a chain from
    the root, the parent of L1[i] is L0[i-1] (the root for i = 0), and that of Lk[i] is L(k-1)[i]; ancestors and
    positions then come out as in the paper's mask.

    The lists run in parallel, parents come before their children, and no two siblings have the same token:
    build it with `add` and `add_path`, which ensure that.

    Attributes:
        tokens: token id of each node. A node with a negative token is blank: a row that makes a prediction through an
            adapter (see `stretto.local_engine.model.adapters.row_adapter`), and is never accepted.
        parents: index of each node's parent, or `ROOT`.
        survival: estimated probability, 0 to 1, that the node and its ancestors are accepted; never above its
            parent's.
        kept: whether to evaluate each node whatever its survival, together with its ancestors: a lookahead window.
        sources: name of what proposed each node; empty for the drafter that returns the tree.
        trusted: by parent, the node that is accepted if the parent is, even if the model would choose another token;
            only lossy methods use it.
        step_cost: if given, survival is calibrated, and only nodes that save time at this cost, over all requests of
            the batch, are evaluated.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    survival: list[float] = field(default_factory=list)
    kept: list[bool] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    trusted: dict[int, int] = field(default_factory=dict)
    step_cost: StepCost | None = field(default=None, repr=False, compare=False)
    _index: dict[tuple[int, int], int] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(
        cls,
        tokens: list[int],
        parents: list[int],
        survival: list[float],
        sources: list[str] | None = None,
    ) -> DraftTree:
        """Return a tree of these nodes: parents before their children, and no two siblings with the same token."""
        index = {pair: node for node, pair in enumerate(zip(parents, tokens, strict=True))}
        kept, sources = [False] * len(tokens), sources or [""] * len(tokens)
        return cls(tokens, parents, survival, kept, sources, _index=index)

    def add(
        self,
        token: int,
        parent: int = ROOT,
        survival: float = 0.5,
        *,
        keep: bool = False,
        source: str = "",
        trust: bool = False,
    ) -> int:
        """Add a node and return its index; ``trust`` makes it the parent's `trusted` node.

        If the parent already has a child with this token, that one is returned. It keeps the higher survival, with
        the source that gave it.
        """
        if parent >= 0:
            survival = min(survival, self.survival[parent])
        found = self._index.get((parent, token))
        if found is not None:
            if survival > self.survival[found]:
                self.survival[found], self.sources[found] = survival, source
            self.kept[found] = self.kept[found] or keep
            return found
        if not ROOT <= parent < len(self.tokens):
            raise IndexError(f"node {parent} cannot be a parent: the tree has {len(self.tokens)} nodes")
        index = self._index[parent, token] = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.survival.append(survival)
        self.kept.append(keep)
        self.sources.append(source)
        if trust:
            self.trusted[parent] = index
        return index

    def add_path(
        self,
        tokens: Iterable[int],
        survival: Iterable[float],
        parent: int = ROOT,
        *,
        keep: bool = False,
        source: str = "",
    ) -> list[int]:
        """Add consecutive tokens, with the survival of each, and return their node indices."""
        nodes = []
        for token, probability in zip(tokens, survival, strict=False):
            parent = self.add(token, parent, probability, keep=keep, source=source)
            nodes.append(parent)
        return nodes

    def child(self, parent: int, token: int) -> int | None:
        """Return the child of ``parent`` with this ``token``, if there is one."""
        return self._index.get((parent, token))

    def depths(self) -> list[int]:
        """Return the depth of each node; the root's children have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return depths

    def path(self, node: int) -> list[int]:
        """Return the nodes from below the root to ``node``, inclusive."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def prune(self, rows: int, depth: int | None = None) -> tuple[DraftTree, list[int]]:
        """Keep at most ``rows`` nodes, those most likely to survive, and none deeper than ``depth``.

        Nodes marked `kept` come before all others. The depth limit is the end of the generation: nothing after it can
        be accepted, so it applies to kept nodes too.

        Returns:
            the smaller tree, and for each node of this one its index there, -1 if it was left out.
        """
        if depth is not None and len(self) <= depth:
            depth = None
        depths = self.depths() if depth is not None else []
        if len(self) <= rows and (depth is None or max(depths, default=0) <= depth):
            return self, list(range(len(self)))
        first = list(self.kept)
        for node in range(len(self) - 1, -1, -1):  # ancestors of kept nodes are kept
            if first[node] and self.parents[node] != ROOT:
                first[self.parents[node]] = True
        allowed = [node for node in range(len(self)) if depth is None or depths[node] <= depth]
        # Survival falls along a path and the sort is stable, so a node's ancestors are chosen before it.
        allowed.sort(key=lambda node: (not first[node], -self.survival[node]))
        return self.only(sorted(allowed[: max(rows, 0)]))

    def chain(self) -> tuple[DraftTree, list[int]]:
        """Keep one path: from the root down, the child most likely to survive. Returns what `prune` does."""
        best: dict[int, int] = {}
        for node, parent in enumerate(self.parents):
            if parent not in best or self.survival[node] > self.survival[best[parent]]:
                best[parent] = node
        nodes, last = [], ROOT
        while last in best:
            last = best[last]
            nodes.append(last)
        return self.only(nodes)

    def only(self, nodes: Iterable[int]) -> tuple[DraftTree, list[int]]:
        """Keep these nodes, given parents first. Returns what `prune` does."""
        indices, smaller = [-1] * len(self), DraftTree(step_cost=self.step_cost)
        for node in nodes:
            parent = self.parents[node]
            indices[node] = smaller.add(
                self.tokens[node],
                parent if parent == ROOT else indices[parent],
                self.survival[node],
                keep=self.kept[node],
                source=self.sources[node],
                trust=self.trusted.get(parent) == node,
            )
        return smaller, indices
