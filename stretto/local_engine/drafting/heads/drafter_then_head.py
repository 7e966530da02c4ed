"""The drafts of another method where the text repeats itself, and those of a head elsewhere."""

from __future__ import annotations

from dataclasses import replace

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome

__all__ = ["DrafterThenHead"]


class DrafterThenHead:
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
        self._found_nothing = False  # the other one
        self._chosen: Drafter | None = None

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        draft = self._other.propose(context, rows)
        self._chosen, self._found_nothing = self._other, not len(draft)
        if sum(draft.survival) < self._head.expects(context):
            from_head = self._head.propose(context, rows)
            if len(from_head):
                draft, self._chosen = from_head, self._head
        return draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`. The other one learns nothing from a step where the head was preferred to it."""
        if self._chosen is self._head:
            self._head.learn(context, outcome)
            if self._found_nothing:
                self._other.learn(context, replace(outcome, rows=(), accepted=()))
        else:
            self._head.read_on(context, outcome)
            self._other.learn(context, outcome)
        self._chosen = None
