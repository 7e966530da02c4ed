"""The rows of a timeline, their labels, and the ticks of its axis."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from stretto.values.answer import Branch

_KIND = re.compile(r"^(?:section|point|item|passage|piece|round|field|element|lookup)-")
SHARED = "sections"  # the kind of a call that writes multiple sections, each in a separate branch
_MOST_PASSAGES = 40  # rows; beyond that, only the first, the last and the failed ones are drawn


def drawn(branches: Sequence[Branch]) -> tuple[list[Branch], list[str]]:
    """Return the branches that get a row, and sentences about those that do not.

    If there are many passages, only some get one. A call that writes multiple sections gets none, because they do.
    """
    passages = [branch for branch in branches if branch.kind == "passage"]
    half = _MOST_PASSAGES // 2
    between = passages[half:-half] if len(passages) > _MOST_PASSAGES else []
    hidden = {branch.id for branch in between if branch.status == "finished"}
    shared = [branch for branch in branches if branch.kind == SHARED]
    notes = [f"{len(hidden):,} more passages were read in between"] if hidden else []
    if shared:
        tokens = sum(branch.usage.completion_tokens for branch in shared)
        calls = "1 call" if len(shared) == 1 else f"{len(shared):,} calls"
        notes.append(f"{calls} for several sections: {tokens:,} tokens")
    return [branch for branch in branches if branch.kind != SHARED and branch.id not in hidden], notes


def label_of(branch: Branch) -> str:
    """Return the label of a row: number and heading or title, which come from a model and can span lines."""
    number = _KIND.sub("", branch.id)
    name = branch.heading or branch.title
    if not name or number == name:
        return name or branch.id
    return f"{number} {name}"


def tokens_of(branch: Branch) -> str:
    """Return the number of tokens it wrote; empty for one text of a call that wrote multiple."""
    tokens = branch.usage.completion_tokens
    return f"{tokens:,}" if tokens or branch.usage.calls or not branch.text else ""


def end_of(branches: Sequence[Branch], total_s: float) -> float:
    """Return the end of the axis, in seconds since the request arrived."""
    return max([total_s, *(branch.span.ended_s or 0.0 for branch in branches)])


def mark_step(end_s: float, room: float, apart: float) -> float:
    """Return the seconds between two ticks: the smallest of 1, 2 and 5 times a power of ten that keeps them ``apart``.

    ``room`` and ``apart`` are in the same unit, cells or pixels.
    """
    least = end_s * apart / room
    power = 10.0 ** math.floor(math.log10(least))
    return next((times * power for times in (1, 2, 5) if times * power >= least), 10 * power)


def mark_text(seconds: float, step_s: float) -> str:
    """Return the label of a tick, with as many digits as the step has."""
    digits = max(0, -math.floor(math.log10(step_s)))
    return f"{seconds:.{digits}f}"
