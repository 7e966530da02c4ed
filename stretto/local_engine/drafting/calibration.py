"""How often a kind of guess was right: the probability with which the next one will be."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Calibration", "Experience"]

_HIGHEST = 0.98  # nothing is certain


class Calibration:
    """Counters, coarse to fine, that forget exponentially and correct what drafters claim.

    A guess claims a probability and belongs to a coarse kind and to a finer one within it. Each kind has seen h hits
    where claims added up to e, of which the older count less; so its claims are multiplied by (h + s * m) / (e + s),
    where m is the factor of the coarse kind, and 1 for that one itself. A factor keeps the order of the guesses
    within a kind, which counters of hits and misses alone would level.

    Args:
        strength: s, hits that the prior is worth.
        memory: trials after which one counts 1/e.
    """

    def __init__(self, strength: float = 1.0, memory: float = 100.0) -> None:
        self._strength = strength
        self._kept = 1 - 1 / memory
        self._coarse: dict[int, list[float]] = {}  # hits, sum of the claims
        self._fine: dict[int, list[float]] = {}

    def estimate(self, coarse: int, fine: int, claim: float) -> float:
        """Probability that a guess of this kind is right."""
        factor, strength = 1.0, self._strength
        if (counter := self._coarse.get(coarse)) is not None:
            factor = (counter[0] + strength) / (counter[1] + strength)
            if (counter := self._fine.get(fine)) is not None:
                factor = (counter[0] + strength * factor) / (counter[1] + strength)
        return min(claim * factor, _HIGHEST)

    def record(self, coarse: int, fine: int, claim: float, hit: bool) -> None:
        """Note whether a guess of this kind was right."""
        for counter in (self._coarse.setdefault(coarse, [0.0, 0.0]), self._fine.setdefault(fine, [0.0, 0.0])):
            counter[0] = counter[0] * self._kept + hit
            counter[1] = counter[1] * self._kept + claim


@dataclass(frozen=True, slots=True)
class Experience:
    """What earlier requests have learned about guesses, for later ones: a short answer is over before it has learned.

    Counters of kinds of guesses only; nothing of what was said can be told from them.

    Attributes:
        guesses: of each source.
        agreement: of the highest of several guesses.
    """

    guesses: Calibration = field(default_factory=Calibration)
    agreement: Calibration = field(default_factory=Calibration)
