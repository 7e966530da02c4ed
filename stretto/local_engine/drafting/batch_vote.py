"""Decides in which steps the requests of a batch draft: all in the same ones, so that they share the extra cost."""

from __future__ import annotations

__all__ = ["BatchVote"]


class BatchVote:
    """Opens one step of four for drafts, and counts the requests that have something to draft in it.

    Attributes:
        is_open: whether the requests of a batch look for drafts in this step.
    """

    PERIOD = 4

    def __init__(self) -> None:
        self.is_open = True
        self._steps = 0
        self._sequences = 1
        self._voters: set[int] = set()
        self._last_round = 0

    def begin(self, sequences: int) -> None:
        """Note that a step of this many sequences begins."""
        self._sequences, self.is_open = sequences, self._steps % self.PERIOD == 0
        if self.is_open:
            self._last_round, self._voters = len(self._voters), set()
        self._steps += 1

    def cast(self, drafter: object) -> bool:
        """Count a request that has something to draft; return whether all had something in the round before."""
        self._voters.add(id(drafter))
        return self._last_round >= self._sequences
