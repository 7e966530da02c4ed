"""Which sequences of a batch attend together: neighbours with as many rows, and about as much to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Segment", "segments"]

_CALL = 256  # keys that a row may see in vain rather than that attention is called once more, on a CPU


class Segment(NamedTuple):
    """Neighbours in a batch whose attention is one call.

    Attributes:
        sequences: which ones, in the batch.
        rows: which of their rows are real, the same of each.
        packed: where these rows stand where all real rows of the batch stand one behind the other.
        extent: slots that the longest of them sees.
    """

    sequences: slice
    rows: slice
    packed: slice
    extent: int


def segments(rows: Sequence[slice], extents: Sequence[int]) -> tuple[Segment, ...]:
    """Divide a batch, such that short sequences are not padded to the length of the long ones.

    Args:
        rows: of each sequence, those that are real; sequences without any are in no segment.
        extents: slots that each sequence sees.
    """
    found: list[Segment] = []
    place = 0
    for number, (own, extent) in enumerate(zip(rows, extents, strict=True)):
        count = own.stop - own.start
        if not count:
            continue
        if found and found[-1].rows == own and found[-1].sequences.stop == number:
            last = found[-1]
            longest, before = max(last.extent, extent), number - last.sequences.start
            wasted = (before + 1) * longest - before * last.extent - extent
            if count * wasted <= _CALL:
                sequences, packed = slice(last.sequences.start, number + 1), slice(last.packed.start, place + count)
                found[-1] = Segment(sequences, own, packed, longest)
                place += count
                continue
        found.append(Segment(slice(number, number + 1), own, slice(place, place + count), extent))
        place += count
    return tuple(found)
