"""What the method ``big_little`` is given, without its heavy imports."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import SettingsError

__all__ = ["BigLittleOptions"]


@dataclass(frozen=True, slots=True)
class BigLittleOptions:
    """Options of the method ``big_little``.

    Attributes:
        sure: probability that the little model has to give a token; below it, the big one writes the token.
        surprise: of a token of the little model, -log of the probability that the big one gives it; above it, the big
            one takes the token back, and all behind it. At 0 every token is the big model's.
        length: most tokens that the little model writes before the big one is asked.
    """

    sure: float = 0.6
    surprise: float = 2.0
    length: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.sure < 1:
            raise SettingsError(f"sure={self.sure} cannot be used: give a probability from 0 to below 1, such as 0.6.")
        if not self.surprise >= 0:
            raise SettingsError(f"surprise={self.surprise} cannot be used: give 0 or more, such as 2.")
        if self.length < 1:
            raise SettingsError(f"length={self.length} cannot be used: give 1 or more tokens, such as 8.")
