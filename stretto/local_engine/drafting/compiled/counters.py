"""Counters of what kinds of guesses come true; see `stretto.local_engine.drafting.calibration`."""

from __future__ import annotations

from stretto.local_engine.kernels.jit import python_or_compiled

__all__ = ["KINDS", "estimate", "record"]

KINDS = 256, 2048
"""How many there are, coarse and fine; nobody looks whether a number is below."""

_HIGHEST = 0.98  # nothing is certain
_KEPT = 0.99  # of what was seen: after a hundred trials one counts 1/e


@python_or_compiled
def estimate(counters, coarse, fine, claim):
    """Correct a claim by the hits and claims of its kinds # [coarse kinds, 2], [fine kinds, 2]."""
    wide, narrow = counters
    factor = (wide[coarse, 0] + 1) / (wide[coarse, 1] + 1)
    factor = (narrow[fine, 0] + factor) / (narrow[fine, 1] + 1)
    return min(claim * factor, _HIGHEST)


@python_or_compiled
def record(counters, coarse, fine, claim, hit):
    """Note whether a guess was right."""
    wide, narrow = counters
    for counter in (wide[coarse], narrow[fine]):
        counter[0] = counter[0] * _KEPT + hit
        counter[1] = counter[1] * _KEPT + claim
