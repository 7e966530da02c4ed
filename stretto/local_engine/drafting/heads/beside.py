"""The drafts of another method where the text repeats itself, and those of a head elsewhere."""

from __future__ import annotations

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.heads.drafter import HeadDrafter
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome

__all__ = ["Beside"]


class Beside:
    """Asks another drafter first, whose drafts cost next to nothing, and the head where it expects to bring more.

    The survival of both is calibrated, so the sum over a draft's nodes is the number of tokens it is expected to bring;
    the head's is known only once it has drafted, so what its drafts have brought lately stands for it.

    Args:
        drafter: the other one, such as `Auto`.
        head: drafts where that one has less to offer.
    """

    wants_top = 0

    def __init__(self, drafter: Drafter, head: HeadDrafter) -> None:
        self.name = drafter.name
        self.wants_states = head.wants_states
        self._other, self._head = drafter, head
        self._chosen: Drafter | None = None

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        draft = self._other.propose(context, rows)
        self._chosen = self._other
        if sum(draft.survival) < self._head.expects(context):
            from_head = self._head.propose(context, rows)
            if len(from_head) or not len(draft):
                draft, self._chosen = from_head, self._head
        return draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`. The one whose draft was not taken learns nothing from this step, but the head reads on."""
        if self._chosen is not self._head:
            self._head.read_on(context, outcome)
        if self._chosen is None:
            self._other.learn(context, outcome)
        else:
            self._chosen.learn(context, outcome)
        self._chosen = None
