"""Statistics of a head's drafts: how often they were right, how long they took, and what they gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stretto.local_engine.drafting.calibration import Calibration, Gains
from stretto.local_engine.drafting.step_cost import StepCost

_DEEPEST = 16
_FIRST_RATE = 0.7
_RATE, _TIME, _GAIN = 1 / 32, 1 / 8, 1 / 16  # learning rates
_AHEAD = 3  # levels that are considered together
_SPIKE = 4.0  # a level that took this many times as long as usual was delayed by something else


@dataclass(slots=True)
class Account:
    """Statistics of one head, kept for later requests; there is one for sampled and one for greedy requests.

    It consists of counts and times only; no text can be recovered from it.

    Attributes:
        guesses: how often candidates were right, by depth and rank.
        rates: how often any candidate after a right node was right, by depth.
        gains: gain of drafts.
        begin_ms: time to begin a draft if the head has read everything but the last step.
        level_ms: time to follow a level of nodes; ``None`` until it is known.
        brought: recent number of accepted tokens per draft, less those that could have been generated meanwhile.
    """

    guesses: Calibration = field(default_factory=Calibration)
    rates: list[float] = field(default_factory=lambda: [_FIRST_RATE] * (_DEEPEST + 1))
    gains: Gains = field(default_factory=lambda: Gains(_GAIN))
    begin_ms: float = 0.0
    level_ms: float | None = None
    brought: float = 1.0

    def rate(self, depth: int) -> float:
        """Return how often a node of this depth is right, given that its parent is."""
        return self.rates[min(depth, _DEEPEST)]

    def note_rate(self, depth: int, right: bool) -> None:
        """Record whether any candidate of this depth was right, after a right one."""
        at = min(depth, _DEEPEST)
        self.rates[at] += _RATE * (right - self.rates[at])

    def note_begin(self, took_ms: float, *, behind: bool) -> None:
        """Record the time to begin a draft, unless the head was ``behind``: then catching up took most of it."""
        if not behind:
            most = _SPIKE * self.begin_ms or took_ms
            self.begin_ms += (_TIME if self.begin_ms else 1.0) * (min(took_ms, most) - self.begin_ms)

    def note_level(self, took_ms: float) -> None:
        """Record the time to follow a level of nodes."""
        if self.level_ms is None:
            self.level_ms = took_ms
        self.level_ms += _TIME * (min(took_ms, _SPIKE * self.level_ms) - self.level_ms)

    def goes_deeper(
        self, survival: Sequence[float], level: Sequence[float], depth: int, spent_ms: float, cost: StepCost
    ) -> bool:
        """Return whether following nodes gives more tokens per millisecond, at once or some levels later.

        A level has to pay for its rows as well as for the head's time: what is drafted but not evaluated is wasted.

        Args:
            survival: survival of all nodes so far.
            level: survival of the nodes that would be followed, each by one node.
            depth: depth of these nodes.
            spent_ms: time spent on the draft so far.
            cost: cost of a step.
        """
        if self.level_ms is None:
            return True
        own, ranked = cost.sequences, sorted(survival, reverse=True)
        steps = cost.ahead_of(range(own, own + len(ranked) + 1))
        tokens = [*accumulate(ranked, initial=float(own))]
        best, rows = max(
            (each / (took + spent_ms), count) for count, (each, took) in enumerate(zip(tokens, steps, strict=True))
        )
        reached, expected = sum(level), tokens[rows]
        ahead = cost.ahead_of(own + rows + len(level) * more for more in range(1, _AHEAD + 1))
        for more, took in enumerate(ahead, 1):
            reached *= self.rate(depth + more)
            expected += reached
            if expected / (took + spent_ms + more * self.level_ms) > best:
                return True
        return False

    def rests(self, cost: StepCost) -> bool:
        """Return whether to skip drafting in a step, because recent drafts gained nothing."""
        return self.gains.rests(cost.sequences, cost.patience())

    def note_gain(self, accepted: int, survival: Sequence[float], took_ms: float, cost: StepCost) -> None:
        """Record the outcome of a draft. Its expected gain counts, since the actual gain is mostly chance.

        Args:
            accepted: number of accepted nodes.
            survival: calibrated survival of the nodes that were evaluated.
            took_ms: time to make the draft.
            cost: cost of a step.
        """
        own, step = cost.sequences, cost.ahead(cost.sequences)
        self.brought += _GAIN * (accepted - own * took_ms / step - self.brought)
        lost = (cost.ahead(own + len(survival)) - step + took_ms) / step
        self.gains.note(max(sum(survival) / own - lost, -1.0), own)
