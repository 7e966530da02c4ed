"""What is known of a head's drafts: how often they were right, what drafting takes, and what it has gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stretto.local_engine.drafting.calibration import Calibration, Gains
from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["Account"]

_DEEPEST = 16
_FIRST_RATE = 0.7
_RATE, _TIME, _GAIN = 1 / 32, 1 / 8, 1 / 16  # how fast each follows what happens
_AHEAD = 3  # levels that are weighed together
_SPIKE = 4.0  # a level that took this many times as long as usual was held up by something else


@dataclass(slots=True)
class Account:
    """The account of one head, kept for later requests; one for sampled and one for greedy ones.

    It holds counts and times only; no text can be recovered from it.

    Attributes:
        guesses: how often candidates were right, by depth and rank.
        rates: how often some candidate behind a right node was right, by depth.
        gains: of drafts.
        begin_ms: what beginning a draft takes, where the head has read all but the last step.
        level_ms: what following a level of nodes takes; ``None`` until it is known.
        brought: tokens of a draft lately, less those that could have been written while it was made.
    """

    guesses: Calibration = field(default_factory=Calibration)
    rates: list[float] = field(default_factory=lambda: [_FIRST_RATE] * (_DEEPEST + 1))
    gains: Gains = field(default_factory=lambda: Gains(_GAIN))
    begin_ms: float = 0.0
    level_ms: float | None = None
    brought: float = 1.0

    def rate(self, depth: int) -> float:
        """How often a node of this depth is right, if the one before it is."""
        return self.rates[min(depth, _DEEPEST)]

    def note_rate(self, depth: int, right: bool) -> None:
        """Note whether some candidate of this depth was right, behind a right one."""
        at = min(depth, _DEEPEST)
        self.rates[at] += _RATE * (right - self.rates[at])

    def note_begin(self, took_ms: float, *, behind: bool) -> None:
        """Note what beginning a draft took, unless the head was behind: then catching up took it, and not the draft."""
        if not behind:
            most = _SPIKE * self.begin_ms or took_ms
            self.begin_ms += (_TIME if self.begin_ms else 1.0) * (min(took_ms, most) - self.begin_ms)

    def note_level(self, took_ms: float) -> None:
        """Note what following a level of nodes took."""
        if self.level_ms is None:
            self.level_ms = took_ms
        self.level_ms += _TIME * (min(took_ms, _SPIKE * self.level_ms) - self.level_ms)

    def goes_deeper(
        self, survival: Sequence[float], level: Sequence[float], depth: int, spent_ms: float, cost: StepCost
    ) -> bool:
        """Whether looking behind nodes makes more tokens a millisecond, some levels on if not at once.

        A level has to pay for its rows as well as for the head's time: what is drafted and not evaluated is wasted.

        Args:
            survival: of all nodes so far.
            level: of those that would be followed, each by one node.
            depth: of these.
            spent_ms: on the draft so far.
            cost: of a step.
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
        """Whether a step goes without a draft, since drafts have gained nothing lately."""
        return self.gains.rests(cost.sequences, cost.patience())

    def note_gain(self, accepted: int, survival: Sequence[float], took_ms: float, cost: StepCost) -> None:
        """Note what became of a draft: what it was expected to gain, since whether it did is mostly chance.

        Args:
            accepted: nodes.
            survival: of the nodes that were evaluated, calibrated.
            took_ms: to make it.
            cost: of a step.
        """
        own, step = cost.sequences, cost.ahead(cost.sequences)
        self.brought += _GAIN * (accepted - own * took_ms / step - self.brought)
        lost = (cost.ahead(own + len(survival)) - step + took_ms) / step
        self.gains.note(max(sum(survival) / own - lost, -1.0), own)
