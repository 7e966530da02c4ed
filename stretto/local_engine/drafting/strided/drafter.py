"""Strides: the masks behind a draft predict the next draft, in the forward that verifies this one."""

from __future__ import annotations

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["MASK", "Strided"]

MASK = -1
"""A blank node: a row with the mask token's input vector."""

_NAME = "strided"


class Strided:
    """Introspective strided decoding: Yu et al., arXiv:2604.11035, in the form that leaves the model as it is.

    Behind the last drafted token come masks, which the adapter reads: the first predicts the token after the one that
    the model chooses behind the draft, the next one the token after that. If the whole draft is accepted, these
    predictions are the next draft. If not, they were made for another text, and the next step has masks alone.

    The model verifies each drafted token with its own weights, to which the adapter adds nothing. A token is accepted
    if the model chooses it, with the random numbers of its position. That is the paper's min(1, p / q) for a draft that
    is always the most probable token; so greedy and sampled answers are those without drafts.

    Args:
        stride: tokens of a step at most.
    """

    def __init__(self, stride: int) -> None:
        self.name = _NAME
        self.wants_top = 1
        self._masks = stride - 1
        self._guesses: list[int] = []
        self._sure: list[float] = []  # of each guess
        self._drafted = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        tree, node, survival = DraftTree(), ROOT, 1.0
        guesses = min(len(self._guesses), max(0, rows - 1))
        for token, sure in zip(self._guesses[:guesses], self._sure, strict=False):
            survival *= sure
            node = tree.add(token, node, survival)
        self._drafted = guesses
        for _ in range(min(self._masks, rows - guesses)):
            node = tree.add(MASK, node, survival, source="mask")
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:  # noqa: ARG002 - as above
        """See `Drafter`."""
        self._guesses, self._sure = [], []
        if len(outcome.accepted) < self._drafted:
            return
        for row in outcome.rows[self._drafted :]:
            if row < 0:
                break
            self._guesses.append(int(outcome.top_tokens[row, 0]))
            self._sure.append(float(outcome.top_probabilities[row, 0]))
