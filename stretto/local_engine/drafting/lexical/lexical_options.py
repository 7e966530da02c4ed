"""What lexical unit decoding is called and given, without its heavy imports."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import SettingsError

__all__ = ["FILE", "LexicalOptions"]

FILE = "lexical.safetensors"
"""Name of the adapter beside the weights."""


@dataclass(frozen=True, slots=True)
class LexicalOptions:
    """Options of the methods ``lexical`` and ``lexical_lossy``.

    Attributes:
        tokens: k, length of a unit at most, with the token that the model chooses itself; ``None`` for as many as the
            adapter was trained for, and on a CPU at most 3.
        alpha: for ``lexical_lossy``: predicted tokens above this probability are taken without verification.
    """

    tokens: int | None = None
    alpha: float = 0.9

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 2:
            raise SettingsError(f"A unit of {self.tokens} tokens cannot be used: give 2 or more, or None.")
        if not 0 < self.alpha < 1:
            raise SettingsError(f"alpha={self.alpha} cannot be used: give a probability between 0 and 1, such as 0.9.")
