"""The rule by which drafting rests: where drafts have gained nothing lately, they are looked for only now and then."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Gains"]

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
