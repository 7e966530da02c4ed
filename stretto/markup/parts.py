"""What is read of a piece of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stretto.markup.calls import ParsedCall

__all__ = ["Parts", "held_back"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What is certain of an answer, since the last time.

    Attributes:
        text: of the answer.
        thought: what was thought before it, once it is whole.
        thinking: the model has thought.
        calls: of tools.
    """

    text: str = ""
    thought: str = ""
    thinking: bool = False
    calls: tuple[ParsedCall, ...] = ()


def held_back(text: str, marks: Sequence[str]) -> int:
    """How many characters at the end of a text may be the beginning of one of these marks."""
    longest = max(map(len, marks), default=1)
    for size in range(min(longest - 1, len(text)), 0, -1):
        end = text[-size:]
        if any(mark.startswith(end) for mark in marks):
            return size
    return 0
