"""No draft: one token a step, what every other method is measured against."""

from __future__ import annotations

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["Autoregressive"]


class Autoregressive:
    """Proposes nothing."""

    name = "autoregressive"
    wants_top = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        return DraftTree()

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`."""
