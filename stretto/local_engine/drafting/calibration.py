"""Statistics of earlier guesses: how often each kind was right, and how much drafts have gained."""

from __future__ import annotations

from dataclasses import dataclass, field

_FIRST = 0.1  # above 0, so that a few drafts can fail
_OCTAVES = 6


@dataclass(slots=True)
class Gains:
    """Recent gain of drafts, in steps.

    Attributes:
        learn: learning rate.
        first: initial gain of each kind of place.
        steps: gain in steps # [octaves of sequences, kinds]
    """

    learn: float
    first: tuple[float, ...] = (_FIRST,)
    steps: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = [[*self.first] for _ in range(_OCTAVES)]

    def rests(self, sequences: int, patience: float, kind: int = 0) -> bool:
        """Return whether to skip drafting in a step. ``patience``: acceptable loss per step, in steps."""
        own = self._of(sequences)
        if own[kind] >= 0:
            return False
        own[kind] += self.learn * patience
        return True

    def note(self, gain: float, sequences: int, kind: int = 0) -> None:
        """Record the net gain of a draft."""
        own = self._of(sequences)
        own[kind] += self.learn * (gain - own[kind])

    def try_again(self, sequences: int) -> None:
        """End a rest, if there is one."""
        own = self._of(sequences)
        own[:] = [max(gain, 0.0) for gain in own]

    def _of(self, sequences: int) -> list[float]:
        return self.steps[min(sequences.bit_length(), _OCTAVES - 1)]


MATCHES = 5
"""Number of kinds of matches by length: below 2, 4, 8 and 16 tokens, and more."""

STANDINGS = 2
"""Number of standings of a `DraftSource`, except that in which it has nothing to draft."""

_FIRST_GAINS = (-0.002, -0.002, 0.1, 0.1, 0.1)  # matches of 4 tokens and more are tried at once
_FIRST_GAINS_OF_SOURCES = (0.1,) * STANDINGS
_HIGHEST = 0.98  # no guess is certain
_LEARN = 1 / 8
_KEPT = 0.99  # decay: after a hundred trials, one counts 1/e


class Calibration:
    """Corrects the claimed probability of a guess by the success of earlier guesses of the same kind.

    A kind consists of a coarse one and a finer one within it. Of guesses of one kind, h were right while the claims
    added up to e; older ones count less. A claim is multiplied by (h + m) / (e + 1), where m is the factor of the
    coarse kind, and 1 for the coarse kind itself. This keeps the order of guesses within a kind, which hit rates alone
    would lose.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], tuple[float, float]] = {}

    def estimate(self, kind: tuple[int, int], claim: float) -> float:
        """Return the probability that a guess of this kind is right."""
        factor = 1.0
        for each in (kind[:1], kind):
            hits, claims = self._counts.get(each, (0.0, 0.0))
            factor = (hits + factor) / (claims + 1)
        return min(claim * factor, _HIGHEST)

    def record(self, kind: tuple[int, int], claim: float, hit: bool) -> None:
        """Record whether a guess of this kind was right."""
        for each in (kind[:1], kind):
            hits, claims = self._counts.get(each, (0.0, 0.0))
            self._counts[each] = hits * _KEPT + hit, claims * _KEPT + claim


@dataclass(frozen=True, slots=True)
class Experience:
    """Statistics of guesses that are kept for later requests, because a short answer ends before it learns much.

    It consists of counts by kind of guess only; no text can be recovered from them.

    Attributes:
        guesses: calibration by length of the match, or the source's kind of guess, and within it by depth.
        gains: gain of drafts by kind of match and, after these, by standing of a source.
    """

    guesses: Calibration = field(default_factory=Calibration)
    gains: Gains = field(default_factory=lambda: Gains(_LEARN, (*_FIRST_GAINS, *_FIRST_GAINS_OF_SOURCES)))
