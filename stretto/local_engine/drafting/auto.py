"""Suffix decoding where it pays: as many rows as gain time, and a rest while drafts gain none."""

from __future__ import annotations

import time

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.calibration import MATCHES, Experience, octave
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory, Suffix
from stretto.local_engine.drafting.watch import RepetitionWatch

__all__ = ["Auto"]

_CANDIDATES = 40
_BEYOND_SHARE = 4  # a request may ask for this many times its share: others may need less than theirs
_LEARN = 1 / 8
_LONGEST, _DEEPEST = 7, 4  # of the kinds of guesses: octaves of the match, and depth
_NO_DRAFT = DraftTree()


class Auto:
    """Drafts what `Suffix` finds, by three rules.

    - Survival is calibrated: how often guesses after a match of about this length came true (see `Calibration`).
    - Only those nodes are evaluated with which the batch makes the most expected tokens per millisecond (see `divide`;
      Liu et al., arXiv:2406.14066, TurboSpec). That may be none.
    - It rests where drafts do not pay. A cheap watch tells how long a stretch the text repeats at the moment, and
      `Experience.gains` what drafts have gained after such repetitions. Where they gained nothing, the next look waits
      until looking takes a small share of the steps since (see `StepCost.patience`). While it rests, nothing is read
      on. So text that nobody can foresee costs what `autoregressive` costs, plus one or two per cent. In a batch, a
      rest ends only where a draft may be evaluated (see `StepCost.should_draft`).

    Args:
        cost: of a step, measured on this machine.
        memory: earlier answers, for `Suffix`.
        experience: of requests that were sampled and of those that were not, to go on learning from.
        source: of the guesses, in place of `Suffix`; for comparisons.
    """

    name = "auto"
    wants_top = 0

    def __init__(
        self,
        cost: StepCost,
        memory: AnswerMemory | None = None,
        *,
        experience: tuple[Experience, Experience] | None = None,
        source: Suffix | PromptLookup | None = None,
    ) -> None:
        self._cost = cost
        self._source = source or Suffix(memory)
        self._watch = RepetitionWatch(2) if memory is None else None  # it does not see earlier answers
        self._experiences = experience or (Experience(), Experience())
        self._draft: DraftTree | None = None
        self._kinds: list[tuple[int, int]] = []  # of each node
        self._claims: list[float] = []  # of each node, if its parent is right
        self._match = 0  # kind of match before the last draft
        self._evaluated = 8  # nodes lately
        self._took_s = 0.0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        self._draft = None
        if self._rests(context):
            return _NO_DRAFT
        began = time.perf_counter()
        most = min(_BEYOND_SHARE * rows, _CANDIDATES, 2 * self._evaluated + 8)
        self._draft = self._source.propose(context, most)
        self._calibrate(self._draft, self._experiences[context.greedy])
        self._draft.step_cost = self._cost
        self._took_s = time.perf_counter() - began
        return self._draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`."""
        draft, experience = self._draft, self._experiences[context.greedy]
        if draft is None:
            return  # the source reads on when it is asked again
        began = time.perf_counter()
        chosen = dict(zip((ROOT, *outcome.accepted), outcome.path, strict=False))  # the token behind each node reached
        evaluated, expected = 0, 0.0
        for node, parent in enumerate(draft.parents):
            if parent in chosen:
                experience.guesses.record(self._kinds[node], self._claims[node], draft.tokens[node] == chosen[parent])
            if outcome.rows[node] >= 0:
                evaluated += 1
                expected += draft.survival[node]
        self._evaluated = max(evaluated, (self._evaluated + evaluated) // 2)
        gains = experience.gains[octave(self._cost.sequences)]
        gains[self._match] += _LEARN * (min(self._cost.gain(evaluated, expected), 1.0) - gains[self._match])
        self._cost.drafted(1e3 * (self._took_s + time.perf_counter() - began))

    def _rests(self, context: DraftContext) -> bool:
        """Whether no draft is looked for in this step; in some texts these are nearly all steps, so it is short."""
        cost = self._cost
        alone = cost.sequences == 1
        if not (alone or cost.vote.is_open):
            return True
        self._match = min(max(self._repeated(context).bit_length() - 1, 0), MATCHES - 1)
        gains = self._experiences[context.greedy].gains[octave(cost.sequences)]
        if gains[self._match] < 0:
            gains[self._match] += _LEARN * cost.patience()
            return True
        return not (alone or cost.should_draft(self))

    def _repeated(self, context: DraftContext) -> int:
        """How many tokens at the end of the text occurred before."""
        if self._watch is not None:
            return self._watch.match(context.tokens)
        self._source.read_on(context)
        return self._source.evidence

    def _calibrate(self, draft: DraftTree, experience: Experience) -> None:
        """Replace the survival that `Suffix` claims by what experience makes of it."""
        length = min(self._source.evidence.bit_length(), _LONGEST)
        self._kinds, self._claims, survival = [], [], [*draft.survival]
        for node, parent in enumerate(draft.parents):
            root = parent == ROOT
            claim = draft.survival[node] if root else draft.survival[node] / draft.survival[parent]
            kind = length, 1 if root else min(self._kinds[parent][1] + 1, _DEEPEST)
            survival[node] = (1.0 if root else survival[parent]) * experience.guesses.estimate(kind, claim)
            self._kinds.append(kind)
            self._claims.append(claim)
        draft.survival = survival
