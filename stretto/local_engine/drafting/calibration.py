"""How often a kind of guess was right: the probability with which the next one will be."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stretto.local_engine.drafting.compiled.counters import KINDS, estimate, record

__all__ = ["MATCHES", "Calibration", "Experience"]

MATCHES = 5
"""Kinds of matches by their length: below 2, 4, 8 and 16 tokens, and more."""

_BATCHES = 6
_HOPES = (-0.002, -0.002, 0.1, 0.1, 0.1)  # at first: what is a few tokens long is waited for some steps
_UNIT_HOPE = 0.1  # likewise: a few drafts may fail


class Calibration:
    """Counters, coarse to fine, that forget exponentially and correct what drafters claim.

    A guess claims a probability and belongs to a coarse kind and to a finer one within it. Each kind has seen h hits
    where claims added up to e, of which the older count less; so its claims are multiplied by (h + m) / (e + 1), where
    m is the factor of the coarse kind, and 1 for that one itself. A factor keeps the order of the guesses within a
    kind, which counters of hits and misses alone would level.

    Attributes:
        counters: h and e of the coarse kinds, and of the fine ones # [kinds, 2] each
    """

    def __init__(self) -> None:
        self.counters = np.zeros((KINDS[0], 2)), np.zeros((KINDS[1], 2))

    def estimate(self, coarse: int, fine: int, claim: float) -> float:
        """Probability that a guess of this kind is right."""
        return float(estimate(self.counters, coarse, fine, claim))

    def record(self, coarse: int, fine: int, claim: float, hit: bool) -> None:
        """Note whether a guess of this kind was right."""
        record(self.counters, coarse, fine, claim, hit)


@dataclass(frozen=True, slots=True)
class Experience:
    """What earlier requests have learned about guesses, for later ones: a short answer is over before it has learned.

    Counters of kinds of guesses only; nothing of what was said can be told from them.

    Attributes:
        guesses: of each source.
        agreement: of the highest of several guesses.
        hopes: how many steps a draft has gained, by octaves of sequences and kind of match # [octaves, MATCHES]
        units: of lexical units.
        unit_hopes: how many steps a draft of them has gained, by octaves of sequences # [octaves]
    """

    guesses: Calibration = field(default_factory=Calibration)
    agreement: Calibration = field(default_factory=Calibration)
    hopes: list[list[float]] = field(default_factory=lambda: [list(_HOPES) for _ in range(_BATCHES)])
    units: Calibration = field(default_factory=Calibration)
    unit_hopes: list[float] = field(default_factory=lambda: [_UNIT_HOPE] * _BATCHES)
