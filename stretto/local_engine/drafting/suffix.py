"""Suffix decoding: the text goes on as it did where it said the same before, in proportion to how often so."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from stretto.local_engine.drafting.automaton import Cursor, SuffixAutomaton
from stretto.local_engine.drafting.protocol import ROOT, Context, DraftTree, Outcome

__all__ = ["AnswerMemory", "Suffix"]

_BRANCHES = 8
_CONTEXTS = 3
_SEPARATOR = -1


class AnswerMemory:
    """Earlier answers, for the drafters of later ones.

    Args:
        limit: tokens kept; when they are more, it starts anew with the latest answer.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._held = 0
        self.automaton = SuffixAutomaton()

    def remember(self, answer: Sequence[int]) -> None:
        """Add one answer."""
        answer = answer[-self._limit :]
        if self._held + len(answer) > self._limit:
            self.automaton, self._held = SuffixAutomaton(), 0
        self._held += len(answer)
        for token in (*answer, _SEPARATOR):
            self.automaton.append(token)


class Suffix:
    """Continues the longest suffix of the text that occurred before, as a tree weighted by counts.

    After a match of L tokens, a continuation of d tokens survives with the probability L / (L + d), times the share
    that each of its tokens has among the tokens seen at its place: long matches go deep, and where the text went on
    in several ways, the tree branches. The mass 1 / (L + 1) that a match leaves goes to the next shorter suffix.

    Oliaro et al., arXiv:2411.04975 (SuffixDecoding); Hu et al., arXiv:2411.10666 (SAM decoding).

    Args:
        memory: earlier answers to look into as well.
        shortest: tokens of a match at least.
    """

    name = "suffix"
    wants_top = 0

    def __init__(self, memory: AnswerMemory | None = None, *, shortest: int = 1) -> None:
        self._text = SuffixAutomaton()
        self._answers = None if memory is None else memory.automaton  # it is replaced when it is full
        self._earlier = None if self._answers is None else Cursor(self._answers)
        self._shortest = shortest
        self._read = 0

    @property
    def evidence(self) -> int:
        """Length of the longest match."""
        return max(self._text.match[1], 0 if self._earlier is None else self._earlier.length)

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        self.read_on(context)
        growth = _Growth(rows)
        growth.begin(self._text, *self._text.match, self._shortest)
        if self._earlier is not None and self._answers is not None:
            self._earlier.shorten(self._earlier.length)
            growth.begin(self._answers, self._earlier.state, self._earlier.length, self._shortest)
        return growth.finish()

    def learn(self, context: Context, outcome: Outcome) -> None:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        self.read_on(context)

    def read_on(self, context: Context) -> None:
        """Take in what was committed since the last time."""
        for token in context.tokens[self._read :]:
            self._text.append(token)
            if self._earlier is not None:
                self._earlier.advance(token)
        self._read = len(context.tokens)


class _Growth:
    """A tree that grows by its most probable node, wherever that is."""

    def __init__(self, rows: int, floor: float = 0.02) -> None:
        self._rows = rows
        self._floor = floor
        self._tree = DraftTree()
        self._pushed = 0
        # -survival, order, automaton, state after the token, tokens matched with it, token, parent
        self._heap: list[tuple[float, int, SuffixAutomaton, int, int, int, int]] = []

    def begin(self, automaton: SuffixAutomaton, state: int, length: int, shortest: int) -> None:
        """Consider what followed a match, and what followed shorter suffixes of it."""
        mass = 1.0
        for _ in range(_CONTEXTS):
            if state <= 0 or length < shortest:
                return
            self._branch(automaton, state, length, mass * length / (length + 1), ROOT)
            mass /= length + 1
            state = automaton.link[state]
            length = automaton.length[state]

    def finish(self) -> DraftTree:
        """Grow to the limit of rows."""
        tree = self._tree
        while self._heap and len(tree) < self._rows:
            negative, _, automaton, state, length, token, parent = heapq.heappop(self._heap)
            if tree.child(parent, token) is None:
                node = tree.add(token, parent, -negative)
                self._branch(automaton, state, length, -negative * length / (length + 1), node)
        return tree

    def _branch(self, automaton: SuffixAutomaton, state: int, length: int, mass: float, parent: int) -> None:
        """Consider the tokens seen behind ``state``; they share ``mass`` by their counts."""
        if mass < self._floor:
            return
        while state > 0 and not automaton.following[state]:
            # The end of the text. It goes on as its longest match did: so a loop is drafted over and over.
            state = automaton.link[state]
            length = min(length, automaton.length[state])
        if state <= 0:
            return
        following, count = automaton.following[state], automaton.count
        # A substring too long to be counted occurred at least once.
        options = [(count[after] or 1, token, after) for token, after in following.items()]
        share = mass / sum(times for times, _, _ in options)
        for times, token, after in heapq.nlargest(_BRANCHES, options) if len(options) > 1 else options:
            if times * share < self._floor or token == _SEPARATOR:
                continue
            self._pushed += 1
            heapq.heappush(self._heap, (-times * share, self._pushed, automaton, after, length + 1, token, parent))
