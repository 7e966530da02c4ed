"""Strides: the masks behind a draft predict the next draft, in the forward that verifies this one."""

from __future__ import annotations

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["MASK", "Strided"]

MASK = -1
"""A blank node: a row with the mask token's input vector."""

_NAME = "strided"
_DRAWN_FROM = 16  # most probable tokens


class Strided:
    """Introspective strided decoding: Yu et al., arXiv:2604.11035, in the form that leaves the model as it is.

    Behind the last drafted token come masks, which the adapter reads: the first predicts the token after the one that
    the model chooses behind the draft, the next one the token after that. If the whole draft is accepted, these
    predictions are the next draft. If not, they were made for another text, and the next step has masks alone.

    The model verifies each drafted token with its own weights, to which the adapter adds nothing. A sampled request
    draws drafts from what the masks say, with the random numbers of their positions, and a draft is accepted if the
    model draws the same token with them. So greedy and sampled answers are those without drafts; the paper's rule, to
    accept with min(1, p / q) and else to draw from the rest, accepts somewhat more, and the answer then depends on the
    draft (see `DraftModel`).

    Args:
        stride: tokens of a step at most.
    """

    def __init__(self, stride: int) -> None:
        self.name = _NAME
        self.wants_top = 1  # of greedy requests
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

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`."""
        self._guesses, self._sure = [], []
        if not context.greedy:
            self.wants_top = _DRAWN_FROM
        if len(outcome.accepted) < self._drafted:
            return
        for row in outcome.rows[self._drafted :]:
            if row < 0:
                break
            place = self._place(context, outcome, row)
            self._guesses.append(int(outcome.top_tokens[row, place]))
            self._sure.append(float(outcome.top_probabilities[row, place]))

    def _place(self, context: DraftContext, outcome: DraftOutcome, row: int) -> int:
        """Which of the most probable tokens behind a mask is drafted: the one that the request would draw there."""
        if context.greedy or context.rank is None:
            return 0
        import torch  # noqa: PLC0415 - only requests that sample

        tokens = torch.from_numpy(outcome.top_tokens[row].copy()).long()
        logits = torch.full((context.vocabulary,), -torch.inf)
        logits[tokens] = torch.from_numpy(outcome.top_probabilities[row].copy()).float().log()
        drawn = context.rank(logits, self._guesses, 1)
        return int((tokens == drawn[0]).nonzero()[0, 0]) if drawn and drawn[0] in tokens else 0
