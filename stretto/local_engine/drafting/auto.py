"""All training-free sources in one draft, as large as it pays on this machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stretto.local_engine.drafting.calibration import Calibration
from stretto.local_engine.drafting.lookahead import Lookahead
from stretto.local_engine.drafting.protocol import ROOT, Context, Drafter, DraftTree, Outcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.drafting.token_recycling import TokenRecycling

__all__ = ["Auto"]

_CANDIDATES = 40
_LONGEST_REST = 8
_WAKING_MATCH = 3
_CLAIMS = (0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 0.75)
_RECYCLING = 4  # beside the two that are merged, each with and without a window


@dataclass(slots=True)
class _Draft:
    """The candidates of one step.

    Attributes:
        tree: all of them, each once.
        chances: probability that each is right where its parent is: the highest of those who guessed it.
        highest: the same before it was corrected for being the highest of several.
        depths: of each of them, the root's children having 0.
        guesses: kind of guess, parent, token and the probability claimed: who said what.
        nodes: for each source whose tree was merged, where its nodes are.
        places: where each candidate is in the draft handed over, -1 for those left out.
    """

    tree: DraftTree = field(default_factory=DraftTree)
    chances: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    guesses: list[tuple[int, int, int, float]] = field(default_factory=list)
    nodes: list[list[int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class Auto:
    """Merges a suffix automaton, n-grams with or without a lookahead window, and recycled tokens.

    Each source says how probable its guesses are; what becomes of them says how far to believe it, by source, length
    of the match, depth and claim (see `Calibration`). A token that several sources guess is one row. The tree is cut
    to the number of rows with the most expected tokens per millisecond, which may be none (see `StepCost`). A
    lookahead window is drawn only where the rows it takes are nearly free.

    Drafting takes time too. The longer it does not pay, the fewer steps it is tried in, down to every ninth, unless a
    longer match turns up; so text that nothing can foresee costs what `autoregressive` costs.

    The number of rows chosen by goodput: Liu et al., arXiv:2406.14066 (TurboSpec).

    Args:
        cost: of a step, measured on this machine.
        memory: earlier answers, for the suffix automaton.
        overhead_ms: what drafting takes.
    """

    name = "auto"

    def __init__(self, cost: StepCost, memory: AnswerMemory | None = None, *, overhead_ms: float = 0.2) -> None:
        self._cost = cost
        self._overhead = overhead_ms
        self._suffix = Suffix(memory)
        self._recycling = TokenRecycling()
        # Some free rows are left to drafts; a window of two columns is none.
        columns = (cost.nearly_free() - 8) // 3
        self._window_rows = 3 * columns - 1 if columns > 2 else 0
        self._lookahead = Lookahead(columns if columns > 2 else 0, ngram=4, guesses=4)
        self._merged: Sequence[Drafter] = (self._suffix, self._lookahead)
        self._names = (self._suffix.name, self._lookahead.name, self._recycling.name)
        self.wants_top = self._recycling.wants_top
        self._calibration = Calibration()
        self._agreement = Calibration()
        self._draft = _Draft()
        self._idle, self._rested = 0, 0  # drafts in a row that did not pay, steps since the last one
        self._chosen = 8

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        self._draft = _Draft()
        if self._rested < min(self._idle // 4, _LONGEST_REST) and self._suffix.evidence < _WAKING_MATCH:
            self._rested += 1
            self.wants_top = 0  # looking for the most probable tokens takes time too
            return self._draft.tree
        self.wants_top = self._recycling.wants_top
        draft = self._draft = self._collect(context, rows)
        tree = draft.tree
        draft.highest, estimate = draft.chances, self._agreement.estimate
        draft.chances = [
            estimate(bisect_right(_CLAIMS, chance), depth << 3 | bisect_right(_CLAIMS, chance), chance)
            for chance, depth in zip(draft.highest, draft.depths, strict=True)
        ]
        self._settle(draft)
        loose = sorted((s for s, kept in zip(tree.survival, tree.kept, strict=True) if not kept), reverse=True)
        window = len(tree) - len(loose)
        chosen, speed = self._cost.best(loose, rows - window, fixed=window)
        self._plan_rest(chosen + window, speed)
        self._chosen = max(chosen, (self._chosen + chosen) // 2)
        smaller, draft.places = tree.prune(chosen + window)
        return smaller

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`."""
        draft, self._draft = self._draft, _Draft()
        self._calibrate(draft, outcome.path)
        rows = [-1 if place < 0 else outcome.rows[place] for place in draft.places]
        taken = set(outcome.accepted)
        accepted = [node for node, place in enumerate(draft.places) if place in taken]
        whole = replace(outcome, rows=rows, accepted=accepted)
        self._recycling.learn(context, whole)
        for source, nodes in zip(self._merged, draft.nodes or [[]] * len(self._merged), strict=True):
            source.learn(context, whole.seen_by(nodes))

    def _collect(self, context: Context, rows: int) -> _Draft:
        """Ask every source."""
        draft, window = _Draft(), min(self._window_rows, rows // 3)
        limit = min(rows, _CANDIDATES, 2 * self._chosen + 8)
        for number, source in enumerate(self._merged):
            own = source.propose(context, limit if source is self._suffix else min(limit, 8 + 3 * window // 2))
            evidence = min(int(getattr(source, "evidence", 0)).bit_length(), 7)
            nodes: list[int] = []
            for token, above, survival, keep in zip(own.tokens, own.parents, own.survival, own.kept, strict=True):
                parent, claim = (ROOT, survival) if above == ROOT else (nodes[above], survival / own.survival[above])
                node = draft.tree.add(token, parent, 1.0, keep=keep, source=source.name)
                nodes.append(node)
                self._note(draft, node, claim, 8 * (2 * number + keep) + evidence)
            draft.nodes.append(nodes)
        self._settle(draft)
        for node, claim in self._recycling.grow(draft.tree, context.tokens[-1], limit + window):
            self._note(draft, node, claim, 8 * _RECYCLING)
        return draft

    def _note(self, draft: _Draft, node: int, claim: float, origin: int) -> None:
        """Enter a guess with its calibrated probability; ``origin`` is its source and the source's evidence."""
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
            draft.tree.sources[node] = self._names[origin // 16]

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

    def _plan_rest(self, rows: int, speed: float) -> None:
        """Note whether drafting pays, given the best number of rows and its tokens per millisecond."""
        step = self._cost(1 + rows)
        pays = speed * step / (step + self._overhead) > 1 / self._cost(1)
        self._idle = 0 if pays or self._window_rows else self._idle + 1
        self._rested = 0


def _coarse(kind: int) -> int:
    """Leave evidence and depth out of a kind of guess: its source and claim."""
    return kind >> 8 << 3 | kind >> 2 & 7
