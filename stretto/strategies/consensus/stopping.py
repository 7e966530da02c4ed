"""When a vote is decided: as soon as no vote can change it, or as soon as its leader is certain enough.

The second rule is that of Adaptive-Consistency (Aggarwal et al., arXiv 2305.11860): the two answers with the most votes
are taken for a coin with an unknown bias, all of which are equally probable at first. After ``first`` votes for one
side and ``second`` for the other, the probability that the leader is the more probable side is that of a
Beta(first + 1, second + 1) variable above 1/2.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from stretto.agreement import Decided

__all__ = ["certainty", "decided"]


def certainty(first: int, second: int) -> Fraction:
    """The probability that more samples would keep the leader in front, exactly."""
    flips = first + second + 1
    return Fraction(sum(math.comb(flips, heads) for heads in range(first + 1)), 2**flips)


def decided(votes: Counter[str], left: int, enough: float) -> Decided | None:
    """By which rule a vote is decided before its end; ``None``: it is open.

    Args:
        votes: so far, by answer.
        left: samples that may still vote.
        enough: certainty from which the leader has won; 1 leaves only what no vote can change.
    """
    first, second = ([count for _, count in votes.most_common(2)] + [0, 0])[:2]
    if first - second > left:
        return "unchangeable"
    return "certain" if first > second and certainty(first, second) >= enough else None
