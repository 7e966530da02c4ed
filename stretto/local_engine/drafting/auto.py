"""All training-free sources in one draft, as large as it pays on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.calibration import MATCHES, Experience
from stretto.local_engine.drafting.compiled.merging import NODES, Merged, collect, judge, no_guesses
from stretto.local_engine.drafting.curve import Curve
from stretto.local_engine.drafting.lookahead.lookahead import Lookahead
from stretto.local_engine.drafting.protocol import Context, Outcome
from stretto.local_engine.drafting.recycling.compiled import Successors
from stretto.local_engine.drafting.recycling.drafter import TokenRecycling, no_successors
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.drafting.watch import RepetitionWatch

__all__ = ["Auto"]

_CANDIDATES = 40
_BEYOND_SHARE = 4  # times its equal share is what one request may hope for when the others need theirs less
_LEARN = 1 / 8
_BREADTH, _DEPTH = 8, 6  # of what is recycled
_SOURCES = (Suffix.name, Lookahead.name, TokenRecycling.name)
_NOTHING = DraftTree()


@dataclass(frozen=True, slots=True)
class _Draft:
    """The candidates of one step.

    Attributes:
        merged: all of them, and who said what.
        counts: how many nodes and guesses there are.
        nodes: those that were proposed # [proposed]
        window: where the nodes of the lookahead drafter are.
    """

    merged: Merged
    counts: tuple[int, int]
    nodes: NDArray[np.int64]
    window: list[int]


class Auto:
    """Merges a suffix automaton and, where they pay, recycled tokens and the n-grams of a lookahead window.

    Each source says how probable its guesses are; what becomes of them says how far to believe it, by source, length of
    the match, depth and claim (see `Calibration`). A token that several sources guess is one row. Of the tree those
    rows are evaluated with which the batch makes the most expected tokens per millisecond, which may be none (see
    `divide`; a request that is alone chooses them itself). A lookahead window is drawn only where the rows it takes are
    nearly free. What is recycled seldom comes true, and finding the probable tokens of every row takes time: so tokens
    are recycled only where rows are nearly free too, or drafting is short beside a step (see `StepCost.spares`).

    Drafting takes time too. How long a stretch the text repeats at the moment is watched, and what drafts have gained
    where it was about as long is known (`Experience.hopes`): where they gained nothing, it rests, until what looking
    for one more takes is a small share of the steps since (see `StepCost.patience`). While it rests, no source reads
    on, and nobody looks for probable tokens. So text that nothing can foresee costs what `autoregressive` costs, but
    for one or two per cent. In a batch a rest ends only where a draft may be evaluated then (see `StepCost.invites`).

    The number of rows chosen by goodput: Liu et al., arXiv:2406.14066 (TurboSpec).

    Args:
        cost: of a step, measured on this machine.
        memory: earlier answers, for the suffix automaton.
        experience: of requests that were sampled and of those that were not, to go on learning from.
    """

    name = "auto"

    def __init__(
        self,
        cost: StepCost,
        memory: AnswerMemory | None = None,
        *,
        experience: tuple[Experience, Experience] | None = None,
    ) -> None:
        self._cost = cost
        self._took = 0.0  # seconds that this step's draft took
        self._suffix = Suffix(memory)
        self._remembers = memory is not None
        self._watch = RepetitionWatch(2)
        self._lookahead = Lookahead(0, ngram=4, guesses=4)
        self._sequences = self._window_rows = 0
        self._recycled = 0  # tokens behind each
        self._successors: Successors | None = None
        self.wants_top = 0
        self._experiences = experience or (Experience(), Experience())
        self._hopes, self._relief = [0.0] * MATCHES, 0.0  # in a batch of this size; see `_rests`
        self._merged: Merged | None = None
        self._draft: _Draft | None = None
        self._matched = 0  # length of the last draft's match
        self._chosen = 8
        self._costs = Curve(cost)

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        if self._cost.sequences != self._sequences:
            self._fit(context)
        if self._rests(context):
            self.wants_top = 0  # looking for the most probable tokens takes time too
            return _NOTHING
        began = time.perf_counter()
        self.wants_top = self._recycled
        tree = self._collect(context, rows)
        self._took = time.perf_counter() - began
        return tree

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`."""
        draft, self._draft = self._draft, None
        if draft is None:
            return  # the sources catch up when they are asked again
        began = time.perf_counter()
        path = np.array(context.tokens[-len(outcome.path) - 1 :], np.int64)
        rows = np.full(draft.counts[0], -1)
        rows[draft.nodes] = outcome.rows
        tops = outcome.top_tokens, outcome.top_probabilities
        evaluated, expected = judge(draft.merged, draft.counts, path, rows, self._known(context), *tops)
        self._plan(evaluated, expected)
        if self._window_rows:
            self._lookahead.learn(context, outcome.seen_by(draft.window))
        self._cost.drafted(1e3 * (self._took + time.perf_counter() - began))

    def _fit(self, context: Context) -> None:
        """Go by the number of sequences.

        A window is as wide as rows are nearly free; some of them are left to drafts, and two columns are none.
        """
        self._sequences = self._cost.sequences
        columns = (self._cost.nearly_free() - 8) // 3
        self._window_rows = 3 * columns - 1 if columns > 2 else 0
        self._lookahead.window = columns if columns > 2 else 0
        hopes = self._experiences[context.greedy].hopes
        self._hopes = hopes[min(self._sequences.bit_length(), len(hopes) - 1)]
        self._relief = _LEARN * self._cost.patience()
        recycled = _BREADTH if self._window_rows or self._cost.spares() else 0
        if recycled != self._recycled:
            self._recycled, self._successors = recycled, None

    def _rests(self, context: Context) -> bool:
        """Whether this step is left alone; it is short, for in some texts all steps are."""
        if self._window_rows:
            return False
        alone = self._sequences == 1
        if not (alone or self._cost.watching):
            return True
        hopes, kind = self._hopes, _kind_of(self._match(context))
        if hopes[kind] < 0:
            hopes[kind] += self._relief
            return True
        return not (alone or self._cost.invites(self))

    def _match(self, context: Context) -> int:
        """Length of a match that could end a rest."""
        if self._remembers:
            self._suffix.read_on(context)
            return self._suffix.evidence
        return self._watch.match(context.tokens)

    def _collect(self, context: Context, rows: int) -> DraftTree:
        """Ask every source; the nodes that may be evaluated."""
        window, most = min(self._window_rows, rows // 3), _BEYOND_SHARE * rows
        limit = min(most, _CANDIDATES, 2 * self._chosen + 8)
        own = self._lookahead.propose(context, min(limit, 8 + 3 * window // 2)) if window else _NOTHING
        given, places = _arrays(own) if window else _NO_ARRAYS, np.empty(len(own), np.int64)
        experience = self._experiences[context.greedy]
        if self._merged is None:
            self._merged = no_guesses(experience.guesses.counters, experience.agreement.counters)
        merged, known = self._merged, self._known(context)
        texts = (*self._suffix.texts(context), context.tokens[-1])
        sizes = (*self._suffix.sizes, limit, min(limit + window, most, NODES), _DEPTH)
        alone = self._sequences == 1 and not window and not context.held  # nobody else's nodes, and none left out
        costs, chosen = self._costs(), rows if alone else -1
        count, guesses, self._matched, nodes, parents = collect(
            merged, texts, sizes, given, places, known, costs, chosen
        )
        self._draft = _Draft(merged, (count, guesses), nodes, places.tolist())
        if not len(nodes):
            return _NOTHING
        return DraftTree.of(
            merged.tokens[nodes].tolist(),
            parents.tolist(),
            merged.survival[nodes].tolist(),
            [_SOURCES[source] for source in merged.sources[nodes].tolist()],
            kept=merged.kept[nodes].tolist(),
            step_cost=None if alone else self._cost,
        )

    def _known(self, context: Context) -> Successors:
        if self._successors is None:
            self._successors = no_successors(context.vocabulary, self._recycled)
        return self._successors

    def _plan(self, chosen: int, tokens: float) -> None:
        """Note what drafting has gained: by how much was evaluated, and how many of these tokens were expected."""
        self._chosen = max(chosen, (self._chosen + chosen) // 2)
        hopes, kind = self._hopes, _kind_of(self._matched)
        hopes[kind] += _LEARN * (min(self._cost.gain(chosen, tokens), 1.0) - hopes[kind])


def _kind_of(match: int) -> int:
    """By the length of a match; one token alone says nothing."""
    return min(max(match.bit_length() - 1, 0), MATCHES - 1)


def _arrays(tree: DraftTree) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    return (
        np.array(tree.tokens, np.int64),
        np.array(tree.parents, np.int64),
        np.array(tree.survival, np.float64),
        np.array(tree.kept, np.bool_),
    )


_NO_ARRAYS = _arrays(_NOTHING)
