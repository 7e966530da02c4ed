"""Lexical unit decoding: [PAD] rows predict, at once, runs of tokens that the model is sure of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.calibration import Gains
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import run_once
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.research.lexical.compiled.units import ROWS, Units, learn, no_predictions, plan

UNITS = Part("units", f"{__name__}:warm_up")
"""Compiled code of the drafter."""

_NO_DRAFT = DraftTree()
_NEVER = 1.0
_BREADTH = 4  # candidates for each position
_PLAIN = 64  # one step in this many has no draft, to measure how much longer steps with drafts take
_PATIENCE = 1 / 64  # of a step: acceptable loss per step while drafts gain nothing
_KINDS = 256, 2048  # number of coarse and of fine kinds
_LEARN = 1 / 64


@dataclass(frozen=True, slots=True)
class UnitExperience:
    """Counts by kind of prediction, and gains of drafts.

    A prediction belongs to a coarse kind and to a finer one within it. Of each kind, h predictions were right while
    the claims added up to e; older ones count less. A claim is multiplied by (h + m) / (e + 1), where m is the factor
    of the coarse kind, and 1 for the coarse kind itself.

    Attributes:
        counters: h and e of the coarse kinds, and of the fine ones # [kinds, 2] each
        gains: gains of drafts.
    """

    counters: tuple[NDArray[np.float64], NDArray[np.float64]] = field(
        default_factory=lambda: (np.zeros((_KINDS[0], 2)), np.zeros((_KINDS[1], 2)))
    )
    gains: Gains = field(default_factory=lambda: Gains(_LEARN))


class Lexical:
    """Predicts the tokens of a unit in the forward that commits the token before it.

    Up to k - 1 [PAD] rows are added after nodes where the next step is likely to begin. The first predicts the second
    token after that node, the next one the third, and so on. So the forward that chooses a token also predicts what
    follows it, which is the next draft. Its nodes are the most probable combinations of the [PAD]s' predictions for
    each position, corrected by how often such predictions were right (see `UnitExperience`).

    The number of nodes, and of [PAD]s after each of them, is chosen by the cost of rows, so that a step gives the most
    tokens per millisecond. A node yields the probability that it is accepted, a [PAD] as much as such [PAD]s have
    yielded recently. If a step without any is best, this one and the next have none. This counts an accepted token
    twice, once for its [PAD] and once for its node. So the net gain of drafts is measured as well: while there is none,
    it rests, and a request that runs alone tries once. One step in 64, and the first, has no draft.

    With verification, the method is lossless. With ``alpha``, predictions above that probability are accepted as they
    are, which is the published method: Sun et al., arXiv:2405.15208. Tokens that the model would not have chosen are
    counted. Every position then has its [PAD] in each step, whatever it costs: the answer must not depend on how fast
    the machine is.

    Args:
        pads: k - 1, maximum number of [PAD]s after a node.
        cost: cost of a step.
        alpha: probability above which nothing is verified; ``None`` verifies everything.
        experience: statistics of sampled and of greedy requests, which are updated. With ``alpha`` they are not used:
            what is accepted without verification always comes true.
    """

    def __init__(
        self,
        pads: int,
        cost: StepCost,
        *,
        alpha: float | None = None,
        experience: tuple[UnitExperience, UnitExperience] | None = None,
    ) -> None:
        self.name = "lexical" if alpha is None else "lexical_lossy"
        self.wants_top = 0
        self._most_pads = pads
        self._alpha = _NEVER if alpha is None else alpha
        self._cost = cost
        self._experiences = (alpha is None and experience) or (UnitExperience(), UnitExperience())
        self._units: Units | None = None
        self._steps, self._rest = 0, False
        self._took = 0.0
        self._guesses, self._gained = 0, -1  # of the last draft; -1 if none of it was evaluated
        self._pending = 0.0  # cost in steps of a draft of [PAD]s only, until it is known what they gained
        self._parents: list[int] = []
        self._pads: dict[int, list[int]] = {}  # of each node that has some

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        self._steps += 1
        if self._units is None:
            breadth = min(_BREADTH, context.vocabulary)
            self._units = no_predictions(self._most_pads, breadth, self._experiences[context.greedy].counters)
        self._judge(context)
        if rows < 1 or (self._alpha == _NEVER and self._rests(context)):
            self._settle(context)
            self.wants_top = 0
            self._units.known[0] = 0  # the predictions follow a token that is no longer the last one
            return _NO_DRAFT
        most, own = min(rows, ROWS), self._cost.sequences
        tokens, parents, survival = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
        steps = np.array(self._cost.ahead_of(own * row for row in range(1, ROWS + 2)))
        guesses, count, self._took = plan(self._units, steps, self._alpha, tokens, parents, survival)
        if not count:
            self._settle(context)
            self._rest, self.wants_top = True, 0
            return _NO_DRAFT
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
            if above < guesses:  # the first after that node; each other one follows the previous one
                hung = self._pads[above] = []
            hung.append(node)
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:  # noqa: ARG002 - the protocol's arguments
        if not self._parents or self._units is None:
            return
        self._gained = len(outcome.path) - 1 if max(outcome.rows) >= 0 else -1
        node = outcome.accepted[-1] if outcome.accepted else ROOT
        rows = [outcome.rows[node] if node >= 0 else 0]
        passed = 0  # [PAD]s of the nodes above it predict further tokens; their first predictions are past
        while True:
            further = [outcome.rows[pad] for pad in self._pads.get(node, ())[passed + len(rows) - 1 :]]
            rows += [row for row in further if row >= 0]
            if node == ROOT:
                break
            node, passed = self._parents[node], passed + 1
        self._parents, self._pads = [], {}
        path, tops = np.array(outcome.path, np.int64), (outcome.top_tokens, outcome.top_probabilities)
        learn(self._units, path, len(outcome.accepted), self._took, np.array(rows), *tops)

    def _rests(self, context: DraftContext) -> bool:
        """Return whether to skip drafting in this step."""
        gains, sequences = self._experiences[context.greedy].gains, self._cost.sequences
        if self._steps % _PLAIN == 1:
            if self._steps == 1 and sequences == 1:
                gains.try_again(sequences)
            return True
        if self._rest:
            self._rest = False
            return True
        return gains.rests(sequences, _PATIENCE)

    def _judge(self, context: DraftContext) -> None:
        """Record the gain of the last draft, by its step's duration; that of [PAD]s alone shows in the next step."""
        gained, self._gained = self._gained, -1
        if gained >= 0:
            if self._guesses:
                self._note(context, gained - self._cost.beyond)
            else:
                self._settle(context)
                self._pending = self._cost.beyond

    def _settle(self, context: DraftContext) -> None:
        """Charge the cost of [PAD]s alone, if they gained nothing."""
        if self._pending:
            self._note(context, 0.0)

    def _note(self, context: DraftContext, gain: float) -> None:
        self._experiences[context.greedy].gains.note(gain - self._pending, self._cost.sequences)
        self._pending = 0.0


def warm_up() -> None:
    """Draft once, so that the code is compiled or loaded before a request needs it."""
    run_once(Lexical(1, StepCost({1: 1.0, 64: 1.0})))
