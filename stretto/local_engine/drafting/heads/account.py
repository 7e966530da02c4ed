"""What is known of a head's drafts: how often they were right, what drafting takes, and what it has gained."""

from __future__ import annotations

from dataclasses import dataclass, field

from stretto.local_engine.drafting.calibration import Calibration
from stretto.local_engine.drafting.gains import Gains
from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["Account"]

_DEEPEST = 16
_FIRST_RATE = 0.7
_RATE, _TIME, _GAIN = 1 / 32, 1 / 8, 1 / 16  # how fast each follows what happens
_SPIKE = 4.0  # a level that took this many times as long as usual was held up by something else


@dataclass(slots=True)
class Account:
    """The account of one head, kept for later requests; one for sampled and one for greedy ones.

    It holds counts and times only; no text can be recovered from it.

    Attributes:
        guesses: how often candidates were right, by depth and rank.
        rates: how often some candidate behind a right node was right, by depth.
        gains: of drafts.
        level_ms: what following a level of nodes takes; ``None`` until it is known.
        accepted: tokens of a draft lately.
    """

    guesses: Calibration = field(default_factory=Calibration)
    rates: list[float] = field(default_factory=lambda: [_FIRST_RATE] * (_DEEPEST + 1))
    gains: Gains = field(default_factory=lambda: Gains(_GAIN))
    level_ms: float | None = None
    accepted: float = 1.0

    def rate(self, depth: int) -> float:
        """How often a node of this depth is right, if the one before it is."""
        return self.rates[min(depth, _DEEPEST)]

    def note_rate(self, depth: int, right: bool) -> None:
        """Note whether some candidate of this depth was right, behind a right one."""
        at = min(depth, _DEEPEST)
        self.rates[at] += _RATE * (right - self.rates[at])

    def note_level(self, took_ms: float) -> None:
        """Note what following a level of nodes took."""
        if self.level_ms is None:
            self.level_ms = took_ms
        self.level_ms += _TIME * (min(took_ms, _SPIKE * self.level_ms) - self.level_ms)

    def goes_deeper(self, survival: float, depth: int, cost: StepCost) -> bool:
        """Whether following nodes of a depth, together accepted with this probability, gains more than it takes."""
        if self.level_ms is None:
            return True
        gained = survival * self.rate(depth + 1) / cost.sequences
        return gained > self.level_ms / cost.ahead(cost.sequences)

    def rests(self, cost: StepCost) -> bool:
        """Whether a step goes without a draft, since drafts have gained nothing lately."""
        return self.gains.rests(cost.sequences, cost.patience())

    def note_gain(self, accepted: int, evaluated: int, took_ms: float, cost: StepCost) -> None:
        """Note what became of a draft, and what it took."""
        self.accepted += _GAIN * (accepted - self.accepted)
        step = cost.ahead(cost.sequences)
        lost = (cost.ahead(cost.sequences + evaluated) - step + took_ms) / step
        self.gains.note(max(accepted / cost.sequences - lost, -1.0), cost.sequences)
