"""Statistics of earlier guesses: how often each kind was right, and what drafts have gained."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MATCHES", "STANDINGS", "Calibration", "Experience", "Gains"]


_FIRST = 0.1  # so that a few drafts may fail
_OCTAVES = 6


@dataclass(slots=True)
class Gains:
    """What drafts have gained lately, in steps.

    Attributes:
        learn: how fast it follows what happens.
        first: what each kind of place is taken to gain before anything is known.
        steps: gained # [octaves of sequences, kinds]
    """

    learn: float
    first: tuple[float, ...] = (_FIRST,)
    steps: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = [[*self.first] for _ in range(_OCTAVES)]

    def rests(self, sequences: int, patience: float, kind: int = 0) -> bool:
        """Whether a step goes without a draft. ``patience``: what may be lost in each, in steps."""
        own = self._of(sequences)
        if own[kind] >= 0:
            return False
        own[kind] += self.learn * patience
        return True

    def note(self, gain: float, sequences: int, kind: int = 0) -> None:
        """Note what a draft has gained, less what it took."""
        own = self._of(sequences)
        own[kind] += self.learn * (gain - own[kind])

    def try_again(self, sequences: int) -> None:
        """End the rest, if there is one."""
        own = self._of(sequences)
        own[:] = [max(gain, 0.0) for gain in own]

    def _of(self, sequences: int) -> list[float]:
        return self.steps[min(sequences.bit_length(), _OCTAVES - 1)]


MATCHES = 5
"""Kinds of matches by their length: below 2, 4, 8 and 16 tokens, and more."""

STANDINGS = 2
"""Kinds of standings that a `DraftSource` has, but for the one in which it has nothing to draft."""

_FIRST_GAINS = (-0.002, -0.002, 0.1, 0.1, 0.1)  # matches of 4 tokens and more are tried at once
_FIRST_GAINS_BESIDE = (0.1,) * STANDINGS
_HIGHEST = 0.98  # nothing is certain
_LEARN = 1 / 8
_KEPT = 0.99  # after a hundred trials, one counts 1/e


class Calibration:
    """Corrects the probability that a drafter claims for a guess by what became of guesses of the same kind.

    A kind is a coarse one and a finer one within it. Of guesses of one kind, h were right where the claims added up to
    e; older ones count less. A claim is multiplied by (h + m) / (e + 1), where m is the factor of the coarse kind, and
    1 for the coarse kind itself. So the order of the guesses within a kind stays, which counts of hits alone would
    level.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], tuple[float, float]] = {}

    def estimate(self, kind: tuple[int, int], claim: float) -> float:
        """Probability that a guess of this kind is right."""
        factor = 1.0
        for each in (kind[:1], kind):
            hits, claims = self._counts.get(each, (0.0, 0.0))
            factor = (hits + factor) / (claims + 1)
        return min(claim * factor, _HIGHEST)

    def record(self, kind: tuple[int, int], claim: float, hit: bool) -> None:
        """Note whether a guess of this kind was right."""
        for each in (kind[:1], kind):
            hits, claims = self._counts.get(each, (0.0, 0.0))
            self._counts[each] = hits * _KEPT + hit, claims * _KEPT + claim


@dataclass(frozen=True, slots=True)
class Experience:
    """What earlier requests have learned about guesses, for later ones: a short answer ends before it has learned much.

    It holds counts by kind of guess only; no text can be recovered from them.

    Attributes:
        guesses: by length of the match, or what a source says of its guess, and within it by depth.
        gains: of drafts, by kind of match or, behind these, standing of a source.
    """

    guesses: Calibration = field(default_factory=Calibration)
    gains: Gains = field(default_factory=lambda: Gains(_LEARN, (*_FIRST_GAINS, *_FIRST_GAINS_BESIDE)))
