"""Default prompts of `bench`: one text of each kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A prompt, its kind, and whether it is a user's message or a text to be continued."""

    kind: str
    text: str
    chat: bool = True


_CODE = '''"""Distances and times in the units of the caller."""

from __future__ import annotations


class Distance:
    """A length in metres."""

    def __init__(self, metres):
        if metres < 0:
            raise ValueError("a distance cannot be negative")
        self.metres = metres

    def __repr__(self):
        return "Distance(%r)" % self.metres

    def __add__(self, other):
        if not isinstance(other, Distance):
            return NotImplemented
        return Distance(self.metres + other.metres)

    def __eq__(self, other):
        if not isinstance(other, Distance):
            return NotImplemented
        return self.metres == other.metres


class Time:
    """A duration in seconds."""

    def __init__(self, seconds):
'''

_PROSE = (
    "A bicycle that is ridden through the winter asks for more care than one that sleeps in a shed. Water and salt "
    "work on the chain first, then on the cables, and at last on everything that turns. Whoever rides to work in the "
    "rain soon learns to"
)

_TRANSFORMATION = (
    "Replace Clara with Emma in this text: Clara Young works as a baker in Lisbon. On Monday Clara will travel to "
    "Vienna. Clara bought a lamp for 30 euros, and in May Clara visited a friend in Lisbon."
)

PROMPTS = (
    BenchPrompt("code", _CODE, chat=False),
    BenchPrompt("prose", _PROSE, chat=False),
    BenchPrompt("transformation", _TRANSFORMATION),
    BenchPrompt("question", "How do I look after a bicycle?"),
)
"""A Python file and an essay to continue, a text to copy with changes, and a question."""
