"""Lexical unit decoding: runs of tokens that the model is sure of are said at once, from [PAD] rows."""

from __future__ import annotations

import numpy as np

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.calibration import Experience
from stretto.local_engine.drafting.curve import Curve
from stretto.local_engine.drafting.lexical.compiled import ROWS, Units, listen, nothing_said, plan
from stretto.local_engine.drafting.protocol import Context, Outcome
from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["Lexical"]

_NOTHING = DraftTree()
_NEVER = 1.0
_BREADTH = 4  # candidates for each place
_PLAIN = 64  # one step of so many has no draft: what drafts take beyond that is known by it
_LEARN = 1 / 64
_RELIEF = _LEARN / 64  # for each step that is left alone because drafts gained nothing


class Lexical:
    """Predicts the tokens of a unit in the forward that commits the one before it.

    Behind nodes where the next step is likely to begin hang up to k - 1 [PAD] rows: the first says the second token
    after that node, and so on. So the forward that chooses a token also says what follows it, and this is the next
    draft. Its nodes are the most probable combinations of what the [PAD]s of each place hold likely, corrected by how
    often that was right (see `Calibration`).

    How many nodes, and how many [PAD]s behind which, is chosen by what rows cost: so many that a step gives the most
    tokens per millisecond. A node gives the probability that it is accepted, a [PAD] what such ones have given lately.
    Where that is none, this step and the next are left alone. An accepted token counts twice in it, when the [PAD] that
    said it is drawn and when it is evaluated, so what drafts gain all in all is watched as well (`Experience`): where
    that is nothing it rests; a request that is alone tries once. One step of 64, the first too, is a plain one.

    Verified, the method is lossless. With ``alpha``, predictions above that probability are taken as they are, which is
    the published method: Sun et al., arXiv:2405.15208. That the model may have chosen otherwise is counted. All places
    have their [PAD] in each step then, whatever that takes: the answer must not depend on how fast the machine is.

    Args:
        places: k - 1, [PAD]s behind a node at most.
        cost: of a step.
        alpha: above it nothing is verified; ``None`` verifies everything.
        experience: of requests that were sampled and of those that were not, to go on learning from. With ``alpha`` it
            is left alone: what is taken unverified always comes true.
    """

    def __init__(
        self,
        places: int,
        cost: StepCost,
        *,
        alpha: float | None = None,
        experience: tuple[Experience, Experience] | None = None,
    ) -> None:
        self.name = "lexical" if alpha is None else "lexical_lossy"
        self.wants_top = 0
        self._places = places
        self._alpha = _NEVER if alpha is None else alpha
        self._cost, self._costs = cost, Curve(cost)
        self._experiences = (alpha is None and experience) or (Experience(), Experience())
        self._units: Units | None = None
        self._steps, self._rest = 0, False
        self._took = 0.0
        self._guesses, self._gained = 0, -1  # of the last draft; -1 where nothing of it was evaluated
        self._owed = 0.0  # steps that one with [PAD]s only took longer, while nothing came of them
        self._parents: list[int] = []
        self._pads: dict[int, list[int]] = {}  # of each node that has some

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        self._steps += 1
        if self._units is None:
            breadth = min(_BREADTH, context.vocabulary)
            self._units = nothing_said(self._places, breadth, self._experiences[context.greedy].units.counters)
        self._judge(context)
        if rows < 1 or (self._alpha == _NEVER and self._rests(context)):
            self._pay(context)
            self.wants_top = 0
            self._units.known[0] = 0  # what was predicted follows a token that is not the last any more
            return _NOTHING
        room = min(rows, ROWS)
        tokens, parents, survival = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        guesses, count, self._took = plan(self._units, self._costs(), self._alpha, tokens, parents, survival)
        if not count:
            self._pay(context)
            self._rest, self.wants_top = True, 0
            return _NOTHING
        self._guesses, self.wants_top = guesses, self._units.tokens.shape[1]
        self._parents = parents[:count].tolist()
        tree = DraftTree.of(
            tokens[:count].tolist(),
            self._parents,
            survival[:count].tolist(),
            [self.name] * guesses + ["[PAD]"] * (count - guesses),
        )
        if self._alpha < _NEVER:
            tree.trusted = {node - 1: node for node in range(guesses)}  # a chain: the root is -1
        for node, above in enumerate(self._parents[guesses:], guesses):
            if above < guesses:  # the first behind that node; the others hang on the one before them
                hung = self._pads[above] = []
            hung.append(node)
        return tree

    def learn(self, context: Context, outcome: Outcome) -> None:  # noqa: ARG002 - the protocol's arguments
        """See `Drafter`."""
        if not self._parents or self._units is None:
            return
        self._gained = len(outcome.path) - 1 if max(outcome.rows) >= 0 else -1
        node = outcome.accepted[-1] if outcome.accepted else ROOT
        rows = [outcome.rows[node] if node >= 0 else 0]
        passed = 0  # what its own [PAD]s do not say, those above it do, whose first predictions are over
        while True:
            spoke = [outcome.rows[pad] for pad in self._pads.get(node, ())[passed + len(rows) - 1 :]]
            rows += [row for row in spoke if row >= 0]
            if node == ROOT:
                break
            node, passed = self._parents[node], passed + 1
        self._parents, self._pads = [], {}
        path, tops = np.array(outcome.path, np.int64), (outcome.top_tokens, outcome.top_probabilities)
        listen(self._units, path, len(outcome.accepted), self._took, np.array(rows), *tops)

    def _rests(self, context: Context) -> bool:
        """Whether this step is left alone."""
        hopes, octave = self._hopes(context)
        if self._steps % _PLAIN == 1:
            if self._steps == 1 and self._cost.sequences == 1:
                hopes[octave] = max(hopes[octave], 0.0)
            return True
        if self._rest:
            self._rest = False
            return True
        if hopes[octave] < 0:
            hopes[octave] += _RELIEF
            return True
        return False

    def _judge(self, context: Context) -> None:
        """Note what the last draft has gained, by what its step took; [PAD]s alone give something in the next step."""
        gained, self._gained = self._gained, -1
        if gained >= 0:
            if self._guesses:
                self._note(context, gained - self._cost.beyond)
            else:
                self._pay(context)
                self._owed = self._cost.beyond

    def _pay(self, context: Context) -> None:
        """Note that nothing came of what [PAD]s alone took, if they were drawn."""
        if self._owed:
            self._note(context, 0.0)

    def _note(self, context: Context, gain: float) -> None:
        hopes, octave = self._hopes(context)
        hopes[octave] += _LEARN * (gain - self._owed - hopes[octave])
        self._owed = 0.0

    def _hopes(self, context: Context) -> tuple[list[float], int]:
        """What drafts have gained, by octaves of sequences, and which it is."""
        hopes = self._experiences[context.greedy].unit_hopes
        return hopes, min(self._cost.sequences.bit_length(), len(hopes) - 1)
