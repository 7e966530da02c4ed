"""How often a kind of guess was right: the probability with which the next one will be."""

from __future__ import annotations

__all__ = ["Calibration"]


class Calibration:
    """Beta counters, coarse to fine, that forget exponentially.

    A guess belongs to a coarse kind and to a finer one within it. Each has hits h and trials t, of which the older
    count less. Its probability is (h + s * prior) / (t + s): the prior of the fine kind is the estimate of the
    coarse one, and the prior of that is what the drafter itself says.

    Args:
        strength: s, trials that the prior is worth.
        memory: trials after which one counts 1/e.
    """

    def __init__(self, strength: float = 4.0, memory: float = 80.0) -> None:
        self._strength = strength
        self._kept = 1 - 1 / memory
        self._coarse: dict[int, list[float]] = {}  # hits, trials
        self._fine: dict[int, list[float]] = {}

    def estimate(self, coarse: int, fine: int, prior: float) -> float:
        """Probability that a guess of this kind is right."""
        strength = self._strength
        if (counter := self._coarse.get(coarse)) is not None:
            prior = (counter[0] + strength * prior) / (counter[1] + strength)
            if (counter := self._fine.get(fine)) is not None:
                prior = (counter[0] + strength * prior) / (counter[1] + strength)
        return prior

    def record(self, coarse: int, fine: int, hit: bool) -> None:
        """Note whether a guess of this kind was right."""
        for counter in (self._coarse.setdefault(coarse, [0.0, 0.0]), self._fine.setdefault(fine, [0.0, 0.0])):
            counter[0] = counter[0] * self._kept + hit
            counter[1] = counter[1] * self._kept + 1
