"""Small filter of the short token sequences that occur in a large text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SIZE = 4
"""Number of tokens of a sequence."""

_FACTOR = 0x9E3779B1
_WRITERS = 254  # number of writers that a byte can distinguish
_NO_READER = 255  # in place of a writer's number: not written by any reader
_SPARSE = 8  # bytes for each token: at most one in eight sequences that do not occur is a false positive


class Grams:
    """Filter of the sequences of `SIZE` tokens that occur, with the first writer of each.

    It is a Bloom filter with one hash, and a byte in place of each bit: a sequence that occurs is always found, and one
    that does not can be a false positive.

    Args:
        tokens: approximate number of tokens of the text.
    """

    def __init__(self, tokens: int) -> None:
        size = 1 << (_SPARSE * max(tokens, 1) - 1).bit_length()
        self._writers = bytearray(size)
        self._mask = size - 1

    def add(self, tokens: Sequence[int], start: int, writer: int) -> None:
        """Add the sequences that end at ``start`` or later, for a writer, a number from 0 on."""
        writers, mask, name = self._writers, self._mask, 1 + writer % _WRITERS
        for end in range(max(start, SIZE - 1), len(tokens)):
            place = _hash(*tokens[end - SIZE + 1 : end + 1]) & mask
            writers[place] = writers[place] or name

    def add_all(self, tokens: Sequence[int]) -> None:
        """Add all sequences of a long text that no reader has written."""
        text = np.array(tokens, np.uint64)
        count = len(text) - SIZE + 1
        if count > 0:
            places = _hash(*(text[start : start + count] for start in range(SIZE))) & np.uint64(self._mask)
            np.frombuffer(self._writers, np.uint8)[places.astype(np.int64)] = _NO_READER

    def has(self, tokens: Sequence[int], end: int, reader: int) -> bool:
        """Return whether the sequence that ends before ``end`` occurs and was not first written by the reader."""
        writer = self._writers[_hash(*tokens[end - SIZE : end]) & self._mask]
        return writer not in {0, 1 + reader % _WRITERS}


def _hash(first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Hash integers, or arrays of them: the lowest 64 bits are the same for both."""
    factor = _FACTOR if isinstance(first, int) else np.uint64(_FACTOR)
    return ((first * factor + second) * factor + third) * factor + fourth
