"""Lexical unit decoding: runs of tokens that the model is sure of are said at once, from [PAD] rows."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence

from stretto.local_engine.drafting.calibration import Calibration
from stretto.local_engine.drafting.protocol import ROOT, Context, DraftTree, Outcome

__all__ = ["Lexical"]

_SURE = (0.5, 0.8, 0.95)


class Lexical:
    """Predicts the tokens of a unit in the forward that commits the one before it.

    Behind nodes where the next step is likely to begin hang k - 1 [PAD] rows: the first says the second token after
    that node, and so on. So the forward that chooses a token also says what follows it, and this is the next draft. Its
    nodes are the most probable combinations of what the [PAD]s of each place hold likely, corrected by how often that
    was right (see `Calibration`).

    Verified, the method is lossless. With ``alpha``, predictions above that probability are taken as they are, which is
    the published method: Sun et al., arXiv:2405.15208. That the model may have chosen otherwise is counted.

    Args:
        places: k - 1, [PAD]s behind a node.
        alpha: above it nothing is verified; ``None`` verifies everything.
        breadth: candidates for each place.
        floor: survival below which no token is drafted.
        least: probability that the next step begins at a node, below which it gets no [PAD]s.
    """

    def __init__(
        self,
        places: int,
        *,
        alpha: float | None = None,
        breadth: int = 2,
        floor: float = 0.15,
        least: float = 0.45,
    ) -> None:
        self.name = "lexical" if alpha is None else "lexical_lossy"
        self.wants_top = breadth
        self._places = places
        self._alpha = alpha
        self._floor = floor
        self._least = least
        self._predicted: list[tuple[Sequence[int], Sequence[float]]] = []  # for each place its tokens, probabilities
        self._certainty = 0  # how sure the model was of the token before them
        self._parents: list[int] = []
        self._pads: dict[int, list[int]] = {}  # of each node that has some
        self._calibration = Calibration()

    def propose(self, context: Context, rows: int) -> DraftTree:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        tree = DraftTree()
        room = max(rows - self._places, 0)
        if self._alpha is None:
            self._grow(tree, room)
        else:
            self._take(tree, room, self._alpha)
        self._hang(tree, rows)
        self._parents = tree.parents
        return tree

    def learn(self, context: Context, outcome: Outcome) -> None:  # noqa: ARG002 - as above
        """See `Drafter`."""
        self._rate(outcome.path)
        node = outcome.accepted[-1] if outcome.accepted else ROOT
        row = outcome.rows[node] if node >= 0 else 0
        tokens, probabilities = outcome.top_tokens.tolist(), outcome.top_probabilities.tolist()
        self._certainty = bisect_right(_SURE, probabilities[row][0])
        passed = 0  # a node without [PAD]s goes by those above it, whose first predictions are committed by now
        while node != ROOT and node not in self._pads:
            node, passed = self._parents[node], passed + 1
        seen = [outcome.rows[pad] for pad in self._pads.get(node, ())[passed:]]
        self._predicted = [(tokens[row], probabilities[row]) for row in seen if row >= 0]
        self._parents, self._pads = [], {}

    def _grow(self, tree: DraftTree, rows: int) -> None:
        """Add the most probable combinations of what is predicted for each place."""
        heap: list[tuple[float, int, int, int]] = []  # -survival, parent, depth, rank
        self._consider(heap, 1.0, ROOT, 0, 0)
        while heap and len(tree) < rows:
            negative, parent, depth, rank = heapq.heappop(heap)
            node = tree.add(self._predicted[depth][0][rank], parent, -negative, source=self.name)
            self._consider(heap, 1.0 if parent == ROOT else tree.survival[parent], parent, depth, rank + 1)
            self._consider(heap, -negative, node, depth + 1, 0)

    def _consider(
        self, heap: list[tuple[float, int, int, int]], survival: float, parent: int, depth: int, rank: int
    ) -> None:
        if depth >= len(self._predicted) or rank >= len(self._predicted[depth][0]):
            return
        survival *= self._calibration.estimate(*self._kind(depth, rank), self._predicted[depth][1][rank])
        if survival >= self._floor:
            heapq.heappush(heap, (-survival, parent, depth, rank))

    def _take(self, tree: DraftTree, rows: int, alpha: float) -> None:
        """Add what is sure enough, to be taken without verification."""
        parent = ROOT
        for tokens, probabilities in self._predicted[:rows]:
            if probabilities[0] <= alpha:
                break
            parent = tree.add(tokens[0], parent, 1.0, source=self.name, trust=True)

    def _hang(self, tree: DraftTree, rows: int) -> None:
        """Add [PAD]s behind the nodes where the next step may begin, the most probable first."""
        ends = [*tree.survival, 1.0]  # the last for the root, ROOT being -1
        for parent, survival in zip(tree.parents, tree.survival, strict=True):
            ends[parent] -= survival
        order = sorted(range(ROOT, len(tree)), key=lambda node: -ends[node])
        self._pads = {}
        for node in order:
            if ends[node] < self._least or len(tree) + self._places > rows:
                break
            pads = range(-1, -1 - self._places, -1)
            self._pads[node] = tree.add_path(pads, [1.0] * self._places, node, source="[PAD]")

    def _rate(self, path: Sequence[int]) -> None:
        """Note how good the predictions were, each as long as those before it were right."""
        for depth, ((tokens, probabilities), token) in enumerate(zip(self._predicted, path, strict=False)):
            for rank, (guess, probability) in enumerate(zip(tokens, probabilities, strict=True)):
                self._calibration.record(*self._kind(depth, rank), probability, guess == token)
            if token != tokens[0]:
                break

    def _kind(self, depth: int, rank: int) -> tuple[int, int]:
        coarse = min(depth, 15) << 4 | min(rank, 15)
        return coarse, coarse << 2 | self._certainty
