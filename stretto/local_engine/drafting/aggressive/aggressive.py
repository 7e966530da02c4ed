"""Aggressive decoding: an answer that is a changed copy of a given text is drafted from that text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.aggressive.alignment import Alignment, Guess, Reason
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["Aggressive"]

_FLOOR = 0.1  # survival below which nothing is drafted
_MOST = 64
_FEW = 8  # tokens drafted where it is not known how the answer goes on
_BESIDE = 4  # tokens drafted of the less likely of two ways
_SELDOM, _LIKELY = 0.25, 0.5  # how likely a change is made again: below it is not drafted; from there it comes first
_RUNS = 5  # kinds of copies, by octaves of the tokens since the last change


class _End(NamedTuple):
    """The end of a path: its node, and how likely it survives."""

    node: int
    survival: float

    def if_(self, claim: float) -> _End:
        """The same where something else must be true as well, of this probability."""
        return _End(self.node, self.survival * claim)


class Aggressive:
    """Drafts from the place in a given text where the answer has arrived, and finds that place again after a change.

    The given text is the one that the request expects its answer to resemble, else its prompt: an edit, a correction, a
    rewriting. Right after a change it is not known how the answer goes on, so the draft branches: the tokens written
    replace as many, or are added, or what stands before the next same token was left out. A change that was made
    before is drafted where the source says the same again.

    Sun et al., arXiv:2205.10350 (aggressive decoding), which drafts a chain, and looks for the place by the tokens that
    agree behind the change. The branches, and changes that are made again, are our additions.

    Args:
        expected: tokens that the answer may resemble from its beginning on; by default the prompt is the source.
    """

    name = "aggressive"
    wants_top = 0

    def __init__(self, expected: Sequence[int] = ()) -> None:
        self._alignment = Alignment(expected, begins=True) if expected else None
        self._read = 0
        self.kinds: list[int] = []

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        growth = _Growth(self._followed(context), min(rows, _MOST))
        for guess in growth.alignment.guesses(context.tokens):
            growth.follow(guess)
        self.kinds = growth.kinds
        return growth.tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """The text is read when a draft is asked for."""

    def standing(self, context: DraftContext) -> int:
        alignment = self._followed(context)
        if not alignment.is_copy:
            return int(alignment.left == 0 and alignment.changes == 0)
        return 2 if alignment.left == 0 else int(alignment.is_near)

    def _followed(self, context: DraftContext) -> Alignment:
        if self._alignment is None:
            self._alignment = Alignment(context.tokens[: context.prompt_length])
        self._read = max(self._read, context.prompt_length)
        self._alignment.follow(context.tokens, self._read)
        self._read = len(context.tokens)
        return self._alignment


class _Growth:
    """A draft as it grows.

    Args:
        alignment: where the answer is.
        rows: nodes of the draft, at most.

    Attributes:
        tree: the draft.
        kinds: what kind of guess each node is; see `DraftSource`.
    """

    def __init__(self, alignment: Alignment, rows: int) -> None:
        self.alignment = alignment
        self.tree, self.kinds = DraftTree(), list[int]()
        self._rows = rows
        self._certain = 1 - min(alignment.change_rate, 0.5)

    def follow(self, guess: Guess) -> None:
        """Add what a guess leads to: its own tokens, then the source's, and the changes that were made before."""
        alignment, place, rows = self.alignment, guess.place, self._rows
        kind = _RUNS + guess.reason
        if guess.reason == Reason.COPIES:
            kind = min(alignment.run.bit_length(), _RUNS)
        else:
            rows = min(rows, len(self.tree) + _FEW)
        end = self._add(_End(ROOT, guess.claim), guess.written, kind)
        while len(self.tree) < rows and end.survival >= _FLOOR and place < alignment.length:
            change = alignment.change_at(place)
            if change is None or change.claim < _SELDOM:
                end = self._add(end, alignment.source(place, 1), kind)
                place += 1
                continue
            again, behind = _RUNS + Reason.REPEATS, place + len(change.replaced)
            changed = self._add(end.if_(change.claim), change.written, again)
            if change.claim >= _LIKELY:
                self._add(end.if_(1 - change.claim), alignment.source(place, _BESIDE), kind)
                end, place = changed, behind
            else:
                self._add(changed, alignment.source(behind, _BESIDE), again)
                end = self._add(end.if_(1 - change.claim), alignment.source(place, 1), kind)
                place += 1

    def _add(self, end: _End, tokens: Sequence[int], kind: int) -> _End:
        """Add tokens that follow each other, as far as there is room; where they end."""
        parent, survival = end
        for token in tokens[: max(self._rows - len(self.tree), 0)]:
            survival *= self._certain
            parent = self.tree.add(token, parent, survival)
            if parent == len(self.kinds):
                self.kinds.append(kind)
        return _End(parent, survival)
