"""Values of pairs of numbers, of which few are known: a sparse table [numbers, numbers] that fits a processor's cache.

The rows of the table are laid over one another, each moved so far that no two values meet (row displacement: Tarjan
and Yao, "Storing a sparse table", 1979). A pair is then found without a search: one look-up says how far its row was
moved, one whose the value in that place is. A binary search costs twice that for pairs that were never looked up
before, as no processor can foresee its turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PairTable:
    """Values by pairs of numbers below ``count``; ``cell`` is the type that holds a value."""

    def __init__(self, pairs: Mapping[tuple[int, int], int], count: int, cell: np.dtype[Any]) -> None:
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        rows: dict[int, list[int]] = {}
        for first, second in pairs:
            rows.setdefault(first, []).append(second)
        self._moved = np.zeros(count, "intp")  # [numbers]
        free = np.ones(2 * count, bool)
        end = 0  # nothing is taken from here on, so that every row fits here at the latest
        for first, row in sorted(rows.items(), key=lambda each: -len(each[1])):
            if len(free) < end + count:
                free = np.concatenate([free, np.ones(len(free), bool)])
            fits = free[row[0] : row[0] + end + 1].copy()
            for second in row[1:]:
                fits &= free[second : second + end + 1]
            self._moved[first] = by = int(fits.argmax())
            free[by + np.array(row)] = False
            end = max(end, by + max(row) + 1)
        self._owner = np.full(end + count, count, np.min_scalar_type(count))  # [places]; count: nobody's
        self._values = np.zeros(end + count, cell)  # [places]
        for (first, second), value in pairs.items():
            self._owner[self._moved[first] + second] = first
            self._values[self._moved[first] + second] = value

    def look_up(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """The values of every number with the one after it, where there are any, in their order."""
        first = numbers[:-1]
        place = self._moved.take(first)
        place += numbers[1:]
        found: NDArray[Any] = self._values.take(place)[self._owner.take(place) == first]
        return found
