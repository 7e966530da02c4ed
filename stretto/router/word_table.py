"""Numbers of words, and of how words begin: a dictionary, and before it a small table of hashes that is asked first.

A look-up in a dictionary follows pointers, to the word as it stands in memory and to its number, one word after the
other. What has not been used for a while is then waited for each time, which costs more than all the rest. The table
has two bytes a slot and is asked about all words at once, so that the waits overlap. A word in whose slot another one
stands is left to the dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stretto.router.features import STEM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN = 0


class WordTable:
    """The number of a known word, else that of its first letters, else `UNKNOWN`.

    Args:
        words: numbers of words, from 1 on; of two that want the same slot, the earlier one gets it.
        stems: numbers of the first ``STEM`` letters of words.
    """

    def __init__(self, words: Mapping[str, int], stems: Mapping[str, int]) -> None:
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        self._numpy = np
        self._words, self._stems = words, stems
        last = max(words.values(), default=0)
        self._mask = (1 << (4 * last).bit_length()) - 1
        self._slots = np.zeros(self._mask + 1, np.min_scalar_type(last))  # numbers, by the lower bits of the hash
        self._hashes = np.zeros(last + 1, "intp")  # [numbers]
        for word, number in reversed(list(words.items())):
            self._slots[hash(word) & self._mask] = number
            self._hashes[number] = hash(word)

    def look_up(self, words: Sequence[str]) -> NDArray[np.intp]:
        """The numbers of words [words]."""
        np = self._numpy
        hashes = np.fromiter(map(hash, words), "intp", len(words))
        numbers: NDArray[Any] = self._slots.take(hashes & self._mask).astype("intp")
        # Equal hashes are taken for equal words: two words that share all 64 bits are not to be expected.
        for place in (self._hashes.take(numbers) != hashes).nonzero()[0].tolist():
            word = words[place]
            numbers[place] = self._words.get(word) or self._stems.get(word[:STEM], UNKNOWN)
        return numbers
