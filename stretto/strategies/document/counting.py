"""Counts the tokens of a text as the model does, or estimates them, rather too many than too few."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["Counter", "estimate", "total_tokens"]

Counter = Callable[[str], int]

_COUNTED = 200_000  # characters that are counted whole; of a longer text, samples
_SAMPLES = 20
_LATIN = 2.5  # characters a token, in Latin scripts with accents
_ASCII = 3
_WIDE = 1.2  # tokens a character, in other scripts


def estimate(text: str) -> int:
    """Tokens of a text without a tokenizer."""
    if text.isascii():
        return math.ceil(len(text) / _ASCII)
    narrow = len(text.encode("latin-1", "ignore"))
    return math.ceil(narrow / _LATIN + (len(text) - narrow) * _WIDE)


def total_tokens(text: str, count: Counter) -> int:
    """Tokens of a whole document; of a long one, projected from samples spread over it."""
    if len(text) <= _COUNTED:
        return count(text)
    size, step = _COUNTED // _SAMPLES, len(text) // _SAMPLES
    counted = sum(count(text[at : at + size]) for at in range(0, step * _SAMPLES, step))
    return math.ceil(counted * len(text) / (size * _SAMPLES))
