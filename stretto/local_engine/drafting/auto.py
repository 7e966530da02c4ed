"""All training-free sources in one draft, as large as it pays on this machine."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from stretto.local_engine.drafting.calibration import Calibration, Experience
from stretto.local_engine.drafting.lookahead import Lookahead
from stretto.local_engine.drafting.protocol import ROOT, Context, Drafter, DraftTree, Outcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.drafting.token_recycling import TokenRecycling
from stretto.local_engine.drafting.watch import RepetitionWatch

__all__ = ["Auto"]

_CANDIDATES = 40
_BEYOND_SHARE = 4  # times its equal share is what one request may hope for when the others need theirs less
_LONGEST_REST = 32
_PATIENCE = 3  # drafts in a row that need not pay
_WAKING_MATCH = 3
_CLAIMS = (0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 0.75)
_RECYCLING = 4  # beside the two that are merged, each with and without a window
_SLEEPY = 5  # drafts that did not pay, as which a beginning counts: most sources have nothing to go by yet
_NOTHING = DraftTree()


@dataclass(slots=True)
class _Draft:
    """The candidates of one step.

    Attributes:
        tree: all of them, each once.
        chances: probability that each is right where its parent is: the highest of those who guessed it.
        highest: the same before it was corrected for being the highest of several.
        depths: of each of them, the root's children having 0.
        guesses: kind of guess, parent, token and the probability claimed: who said what.
        window: where the nodes of the lookahead drafter are.
    """

    tree: DraftTree
    chances: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    guesses: list[tuple[int, int, int, float]] = field(default_factory=list)
    window: list[int] = field(default_factory=list)


class Auto:
    """Merges a suffix automaton, n-grams with or without a lookahead window, and recycled tokens.

    Each source says how probable its guesses are; what becomes of them says how far to believe it, by source, length
    of the match, depth and claim (see `Calibration`). A token that several sources guess is one row. Of the tree those
    rows are evaluated with which the batch makes the most expected tokens per millisecond, which may be none (see
    `divide`). A lookahead window is drawn only where the rows it takes are nearly free.

    Drafting takes time too. When it has not paid for a few steps, it rests, each time for longer, up to 32 steps, in a
    batch longer still, such that looking for drafts in vain takes a small share of its steps. While it rests, no source
    reads on, and nobody looks for probable tokens; only whether the text repeats itself is watched, because a match
    longer than those that did not pay ends the rest. So text that nothing can foresee costs what `autoregressive`
    costs. In a batch a rest ends only where a draft may be evaluated then (see `StepCost.invites`).

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
        self._watch = RepetitionWatch(_WAKING_MATCH + 1)
        self._recycling = TokenRecycling()
        self._lookahead = Lookahead(0, ngram=4, guesses=4)
        self._sequences = self._window_rows = 0
        self._fit_window()
        self.wants_top = 0
        self._experiences = experience or (Experience(), Experience())
        self._calibration, self._agreement = Calibration(), Calibration()  # until it is known how tokens are chosen
        self._draft: _Draft | None = None
        self._idle, self._rested = _SLEEPY, 0  # drafts in a row that did not pay, steps since the last one
        self._doubted = 0  # length of the match with which the last one did not pay
        self._rest = self._length_of_rest()  # behind a forward nothing is in the processor's caches: each call counts
        self._chosen = 8

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        if self._cost.sequences != self._sequences:
            if self._cost.sequences < self._sequences:  # what did not pay may pay now
                self._idle = min(self._idle, _SLEEPY)
            self._fit_window()
            self._rest = self._length_of_rest()
        if self._rests(context):
            self._rested += 1
            self.wants_top = 0  # looking for the most probable tokens takes time too
            return _NOTHING
        self._rested, began = 0, time.perf_counter()
        self.wants_top = self._recycling.wants_top
        experience = self._experiences[context.greedy]
        self._calibration, self._agreement = experience.guesses, experience.agreement
        draft = self._draft = self._collect(context, rows)
        draft.highest, estimate = draft.chances, self._agreement.estimate
        draft.chances = [
            estimate(bisect_right(_CLAIMS, chance), depth << 3 | bisect_right(_CLAIMS, chance), chance)
            for chance, depth in zip(draft.highest, draft.depths, strict=True)
        ]
        self._settle(draft)
        self._took = time.perf_counter() - began
        return draft.tree

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`."""
        draft, self._draft = self._draft, None
        if draft is None:
            return  # the sources catch up when they are asked again
        began = time.perf_counter()
        self._suffix.learn(context, outcome)
        self._calibrate(draft, outcome.path)
        self._plan_rest(draft.tree, outcome.rows)
        if self._window_rows:
            self._lookahead.learn(context, outcome.seen_by(draft.window))
        self._recycling.learn(context, outcome)
        self._cost.drafted(1e3 * (self._took + time.perf_counter() - began))

    def _fit_window(self) -> None:
        """Draw a window as wide as rows are nearly free; some of them are left to drafts, and two columns are none."""
        self._sequences = self._cost.sequences
        columns = (self._cost.nearly_free() - 8) // 3
        self._window_rows = 3 * columns - 1 if columns > 2 else 0
        self._lookahead.window = columns if columns > 2 else 0

    def _rests(self, context: Context) -> bool:
        """Whether this step is left alone."""
        if self._window_rows:
            return False
        alone = self._sequences == 1
        if self._rested >= self._rest:
            over = True
        elif alone or self._cost.watching:
            over = self._match(context) >= max(self._idle - _PATIENCE + _WAKING_MATCH, 2 * self._doubted)
        else:
            over = False
        return not (over and (alone or self._cost.invites(self)))

    def _length_of_rest(self) -> int:
        """Steps that are left alone, unless the text repeats itself."""
        tries = self._idle - _PATIENCE
        return max(min(1 << tries // 2, _LONGEST_REST), self._cost.spacing()) if tries > 0 else 0

    def _match(self, context: Context) -> int:
        """Length of a match that could end a rest."""
        if self._remembers:
            self._suffix.read_on(context)
            return self._suffix.evidence
        return self._watch.match(context.tokens)

    def _collect(self, context: Context, rows: int) -> _Draft:
        """Ask every source."""
        draft, window = _Draft(DraftTree(step_cost=self._cost)), min(self._window_rows, rows // 3)
        most = _BEYOND_SHARE * rows
        limit = min(most, _CANDIDATES, 2 * self._chosen + 8)
        guesses = self._suffix.propose(context, limit)
        self._merge(draft, self._suffix, guesses, min(self._suffix.evidence.bit_length(), 7))
        own = self._lookahead.propose(context, min(limit, 8 + 3 * window // 2, most - len(draft.tree)))
        draft.window = self._merge(draft, self._lookahead, own, 16)
        self._settle(draft)
        for node, claim in self._recycling.grow(draft.tree, context.tokens[-1], min(limit + window, most)):
            self._note(draft, node, claim, 8 * _RECYCLING, self._recycling.name)
        return draft

    def _merge(self, draft: _Draft, source: Drafter, own: DraftTree, origin: int) -> list[int]:
        """Enter a source's draft; where its nodes are."""
        nodes: list[int] = []
        for token, above, survival, keep in zip(own.tokens, own.parents, own.survival, own.kept, strict=True):
            parent, claim = (ROOT, survival) if above == ROOT else (nodes[above], survival / own.survival[above])
            node = draft.tree.add(token, parent, 1.0, keep=keep, source=source.name)
            nodes.append(node)
            self._note(draft, node, claim, origin + 8 * keep, source.name)
        return nodes

    def _note(self, draft: _Draft, node: int, claim: float, origin: int, source: str) -> None:
        """Enter a guess with its calibrated probability; ``origin`` is its source with the source's evidence."""
        chances, parent = draft.chances, draft.tree.parents[node]
        depth = 0 if parent == ROOT else draft.depths[parent] + 1
        kind = (8 * origin + bisect_right(_CLAIMS, claim)) * 4 + min(depth, 3)
        draft.guesses.append((kind, parent, draft.tree.tokens[node], claim))
        chance = self._calibration.estimate(_coarse(kind), kind, claim)
        if node == len(chances):
            chances.append(chance)
            draft.depths.append(depth)
        elif chance > chances[node]:
            chances[node] = chance
            draft.tree.sources[node] = source

    def _settle(self, draft: _Draft) -> None:
        """Work out every survival; of all siblings, at most one is right."""
        tree, total = draft.tree, [0.0] * (len(draft.tree) + 1)  # the last for the root, ROOT being -1
        for parent, chance in zip(tree.parents, draft.chances, strict=True):
            total[parent] += chance
        for node, (parent, chance) in enumerate(zip(tree.parents, draft.chances, strict=True)):
            above = 1.0 if parent == ROOT else tree.survival[parent]
            tree.survival[node] = above * chance / max(total[parent], 1.0)

    def _calibrate(self, draft: _Draft, path: Sequence[int]) -> None:
        """Judge the guesses whose parents were committed, those that were left out of the draft too."""
        following, node = {}, ROOT
        for token in path:
            following[node] = token
            child = draft.tree.child(node, token)
            if child is None:
                break
            node = child
        for kind, parent, token, claim in draft.guesses:
            if parent in following:
                self._calibration.record(_coarse(kind), kind, claim, following[parent] == token)
        for chance, depth, parent, token in zip(
            draft.highest, draft.depths, draft.tree.parents, draft.tree.tokens, strict=True
        ):
            if parent in following:
                claimed = bisect_right(_CLAIMS, chance)
                self._agreement.record(claimed, depth << 3 | claimed, chance, following[parent] == token)

    def _plan_rest(self, tree: DraftTree, rows: Sequence[int]) -> None:
        """Note whether drafting pays: by what was evaluated, and how probable that was."""
        chosen, tokens = 0, 0.0
        for row, survival, kept in zip(rows, tree.survival, tree.kept, strict=True):
            if row >= 0 and not kept:
                chosen += 1
                tokens += survival
        self._chosen = max(chosen, (self._chosen + chosen) // 2)
        if self._cost.pays(chosen, tokens):
            self._idle = self._doubted = 0
        else:
            self._idle, self._doubted = self._idle + 1, self._suffix.evidence
        self._rest = self._length_of_rest()


def _coarse(kind: int) -> int:
    """Leave evidence and depth out of a kind of guess: its source and claim."""
    return kind >> 8 << 3 | kind >> 2 & 7
