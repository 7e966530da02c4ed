"""Suffix decoding: where the end of the text occurred before, what followed it is guessed, by how often it did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.automaton import Cursor, SuffixAutomaton
from stretto.local_engine.drafting.compiled.suffixes import continuations
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["AnswerMemory", "Suffix"]

_SEPARATOR = -1
_JOINT = 4  # tokens of the prompt before an expected answer, so that its very beginning is drafted
_NO_ANSWERS = SuffixAutomaton()  # never extended


class AnswerMemory:
    """Earlier answers, for the drafters of later ones.

    Args:
        limit: tokens kept; beyond that, it starts anew with the latest answer.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._held = 0
        self.automaton = SuffixAutomaton()

    @classmethod
    def expecting(cls, prompt: Sequence[int], answer: Sequence[int]) -> AnswerMemory:
        """A memory that holds what the answer to this prompt may be, for one request."""
        memory = cls()
        memory.remember((*prompt[-_JOINT:], *answer))
        return memory

    def remember(self, answer: Sequence[int]) -> None:
        """Add one answer."""
        answer = answer[-self._limit :]
        if self._held + len(answer) > self._limit:
            self.automaton, self._held = SuffixAutomaton(), 0
        self._held += len(answer)
        self.automaton.extend((*answer, _SEPARATOR))


class Suffix:
    """Continues the longest suffix of the text that occurred before, as a tree weighted by counts.

    After a match of L tokens, a continuation of d tokens survives with the probability L / (L + d), times the share of
    each of its tokens among the tokens seen at that position. So long matches go deep, and where the text continued in
    several ways, the tree branches. The mass 1 / (L + 1) that a match leaves goes to the next shorter suffix.

    Oliaro et al., arXiv:2411.04975 (SuffixDecoding); Hu et al., arXiv:2411.10666 (SAM decoding).

    Args:
        memory: earlier answers, searched as well.
        shortest: least tokens of a match.
    """

    name = "suffix"
    wants_top = 0

    def __init__(self, memory: AnswerMemory | None = None, *, shortest: int = 1) -> None:
        self._text = SuffixAutomaton()
        self._answers = _NO_ANSWERS if memory is None else memory.automaton  # it is replaced when it is full
        self._earlier = Cursor(self._answers)
        self._shortest = shortest
        self._read = 0

    @property
    def evidence(self) -> int:
        """Length of the longest match."""
        return max(self._text.match, self._earlier.length)

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        new = np.array(context.tokens[self._read :], np.int64)
        self._read = len(context.tokens)
        text, answers, cursor = self._text.roomy(len(new)), self._answers.held, self._earlier.held
        tokens, parents, survival = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)
        count = continuations(text, answers, cursor, new, self._text.counted, self._shortest, tokens, parents, survival)
        return DraftTree.of(tokens[:count].tolist(), parents[:count].tolist(), survival[:count].tolist())

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`. The text is read when a draft is asked for."""

    def read_on(self, context: DraftContext) -> None:
        """Read what was committed since the last time."""
        new = context.tokens[self._read :]
        if new:
            self._text.extend(new)
            if self._answers is not _NO_ANSWERS:
                self._earlier.follow(new)
            self._read = len(context.tokens)
