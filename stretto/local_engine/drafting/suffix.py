"""Suffix decoding: guess what followed earlier occurrences of the text's end, weighted by counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.automaton import SuffixAutomaton
from stretto.local_engine.drafting.compiled.suffixes import LONGEST, OTHERS, SortedText, continuations
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.texts import Texts
from stretto.local_engine.kernels.compiling.compiled_parts import Part

_NONE = SuffixAutomaton()  # never extended
_NO_FILES = SortedText(np.empty(0, np.int32), np.empty(0, np.int32))


DRAFTING = Part("drafting", f"{__name__}:warm_up")
"""Compiled code that `auto` and `suffix` run."""


class Suffix:
    """Continues the longest suffix of the text that occurred before, as a tree weighted by counts.

    After a match of L tokens, a continuation of d tokens survives with the probability L / (L + d), times the share of
    each of its tokens among the tokens seen at that position. So long matches go deep, and the tree branches where the
    text continued in different ways. The mass 1 / (L + 1) that a match leaves goes to the next shorter suffix.

    Oliaro et al., arXiv:2411.04975 (SuffixDecoding); Hu et al., arXiv:2411.10666 (SAM decoding). Texts outside of the
    request are the datastore of He et al., arXiv:2311.08252 (REST).

    Args:
        others: further texts to search, which can grow, such as earlier answers; at most two.
        files: further texts to search, which do not change.
        shortest: minimum number of tokens of a match.
    """

    name = "suffix"
    wants_top = 0

    def __init__(self, others: Sequence[Texts] = (), files: FileTexts | None = None, *, shortest: int = 1) -> None:
        self._text = SuffixAutomaton()
        self._others = list(others)
        self._searched = [*(texts.automaton for texts in others), *[_NONE] * (OTHERS - len(others))]
        self._files = _NO_FILES if files is None else files.sorted_text
        self._cursors = np.zeros((OTHERS + 1, 2), np.int64)
        self._shortest = shortest
        self._read = 0

    @property
    def evidence(self) -> int:
        """Length of the longest match."""
        return max(self._text.match, int(self._cursors[:, 1].max()))

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        new, recent = np.array(context.tokens[self._read :], np.int64), np.array(context.tokens[-LONGEST:], np.int64)
        self._read = len(context.tokens)
        for number, texts in enumerate(self._others):
            if texts.automaton is not self._searched[number]:  # it was replaced
                self._searched[number], self._cursors[number] = texts.automaton, 0
        text, others = self._text.roomy(len(new)), [automaton.arrays for automaton in self._searched]
        tokens, parents, survival = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)
        known = self._text.counted, self._shortest
        count = continuations(text, *others, self._files, self._cursors, new, recent, *known, tokens, parents, survival)
        return DraftTree.of(tokens[:count].tolist(), parents[:count].tolist(), survival[:count].tolist())

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """Do nothing: the text is read when a draft is requested."""


def warm_up() -> None:
    """Draft with the suffix automaton, so that its code is compiled or loaded."""
    run_once(Suffix([Texts.of([[1, 2]])], FileTexts([[1, 2]])))


def run_once(drafter: Drafter) -> None:
    """Draft and learn a few times."""
    context = DraftContext([1, 2, 3, 1, 2], 3, 8)
    for _ in range(8):  # some drafters begin with a rest
        rows = len(drafter.propose(context, 4))
        shape = (1 + rows, drafter.wants_top)
        context.tokens.append(3)
        tops = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        drafter.learn(context, DraftOutcome([-1] * rows, *tops, [3], []))
