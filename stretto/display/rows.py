"""Which branches of an answer a timeline draws, what it calls them, and where its axis has marks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from stretto.answer import Branch

_KIND = re.compile(r"^(?:point|item|passage|piece|round)-")
_MOST_PASSAGES = 40  # rows; of more, the first and the last are drawn, and those that failed


def drawn(branches: Sequence[Branch]) -> tuple[list[Branch], int]:
    """The branches that get a row, and how many passages get none.

    A call that wrote several points has none of its own: its points have one each.
    """
    passages = [branch for branch in branches if branch.kind == "passage"]
    half = _MOST_PASSAGES // 2
    between = passages[half:-half] if len(passages) > _MOST_PASSAGES else []
    hidden = {branch.id for branch in between if branch.status == "finished"}
    shared = {branch.id for branch in branches if branch.kind == "points" and branch.status == "finished"}
    return [branch for branch in branches if branch.id not in hidden | shared], len(hidden)


def label_of(branch: Branch) -> str:
    """The name of a row: number and title. Titles come from a model: one line of them is not certain."""
    number = _KIND.sub("", branch.id)
    return f"{number} {branch.title}" if branch.title else branch.id


def end_of(branches: Sequence[Branch], total_s: float) -> float:
    """Where the axis ends: seconds since the request arrived."""
    return max([total_s, *(branch.span.ended_s or 0.0 for branch in branches)])


def mark_step(end_s: float, room: float, apart: float) -> float:
    """Seconds between two marks: the smallest of 1, 2 and 5 times a power of ten that keeps them ``apart``.

    ``room`` and ``apart`` are in the same unit, cells or pixels.
    """
    least = end_s * apart / room
    power = 10.0 ** math.floor(math.log10(least))
    return next((times * power for times in (1, 2, 5) if times * power >= least), 10 * power)


def mark_text(seconds: float, step_s: float) -> str:
    """A number of the axis, with as many digits as its step has."""
    digits = max(0, -math.floor(math.log10(step_s)))
    return f"{seconds:.{digits}f}"
