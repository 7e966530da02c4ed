"""Aggressive decoding: an answer that is a changed copy of a given text is drafted from that text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.aggressive.alignment import Alignment, Guess, Reason
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

_FLOOR = 0.1  # survival below which nothing is drafted
_MOST = 64
_FEW = 8  # tokens drafted while the continuation is uncertain
_ALTERNATIVE = 4  # tokens drafted for the less likely of two continuations
_SELDOM, _LIKELY = 0.25, 0.5  # probability of repeating a change: below not drafted; from there drafted first
_RUNS = 5  # kinds of copies, by octaves of the tokens since the last change


class _End(NamedTuple):
    """The end of a path: its node and probability of survival."""

    node: int
    survival: float

    def if_(self, claim: float) -> _End:
        """Return the same end where a further condition, of this probability, must hold too."""
        return _End(self.node, self.survival * claim)


class Aggressive:
    """Drafts from the current place in a given text, and finds that place again after a change.

    The given text is the one that the request expects its answer to resemble, else its prompt: for edits, corrections
    and rewrites. Right after a change the continuation is uncertain, so the draft branches: the new tokens replace as
    many of the source, or are inserted, or the source's tokens up to the next equal one were left out. A change that
    was made before is drafted where the source repeats the same tokens.

    Sun et al., arXiv:2205.10350 (aggressive decoding), which drafts a chain, and finds the place by the tokens that
    agree after the change. Branches and repeated changes are our additions.

    Args:
        expected: tokens that the answer may resemble from its beginning; by default the prompt is the source.
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
        """Do nothing: the text is read when a draft is requested."""

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
    """A draft that is being grown.

    Args:
        alignment: current place of the answer.
        rows: maximum number of nodes.

    Attributes:
        tree: the draft.
        kinds: kind of guess of each node; see `DraftSource`.
    """

    def __init__(self, alignment: Alignment, rows: int) -> None:
        self.alignment = alignment
        self.tree, self.kinds = DraftTree(), list[int]()
        self._rows = rows
        self._certain = 1 - min(alignment.change_rate, 0.5)

    def follow(self, guess: Guess) -> None:
        """Add the tokens of a guess, then those of the source, with changes that were made before."""
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
            again, after = _RUNS + Reason.REPEATS, place + len(change.replaced)
            changed = self._add(end.if_(change.claim), change.written, again)
            if change.claim >= _LIKELY:
                self._add(end.if_(1 - change.claim), alignment.source(place, _ALTERNATIVE), kind)
                end, place = changed, after
            else:
                self._add(changed, alignment.source(after, _ALTERNATIVE), again)
                end = self._add(end.if_(1 - change.claim), alignment.source(place, 1), kind)
                place += 1

    def _add(self, end: _End, tokens: Sequence[int], kind: int) -> _End:
        """Add consecutive tokens, as far as there is room, and return where they end."""
        parent, survival = end
        for token in tokens[: max(self._rows - len(self.tree), 0)]:
            survival *= self._certain
            parent = self.tree.add(token, parent, survival)
            if parent == len(self.kinds):
                self.kinds.append(kind)
        return _End(parent, survival)
