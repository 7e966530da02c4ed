"""Which rows of a batch attend together: those of neighbours with as many, and about as much to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Segment", "parts", "segments"]

_CALL = 256  # keys that a row may see in vain rather than that attention is called once more, on a CPU
_ROWS = 128  # of a prompt, that are attended to together


class Segment(NamedTuple):
    """Rows of neighbours in a batch whose attention is one call.

    Attributes:
        sequences: which ones, in the batch.
        rows: which of their rows, the same of each.
        packed: where these rows stand where all real rows of the batch stand one behind the other.
        extent: slots that the row that sees most sees.
    """

    sequences: slice
    rows: slice
    packed: slice
    extent: int

    @property
    def lone(self) -> bool:
        """Whether it is one row, which sees all slots of the extent."""
        return bool(self.packed.stop - self.packed.start == 1)


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
        if found and count <= _ROWS and found[-1].rows == own and found[-1].sequences.stop == number:
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


def parts(rows: Sequence[slice], extents: Sequence[int]) -> tuple[Segment, ...]:
    """Divide the rows of prompts too, which follow each other: early ones are not padded to what the last one sees."""
    return tuple(part for segment in segments(rows, extents) for part in _parts(segment))


def _parts(segment: Segment) -> list[Segment]:
    sequences, rows, packed, extent = segment
    if packed.stop - packed.start <= _ROWS or sequences.stop - sequences.start > 1:
        return [segment]
    found = []
    for start in range(rows.start, rows.stop, _ROWS):
        stop, shift = min(start + _ROWS, rows.stop), packed.start - rows.start
        own = slice(start, stop)
        found.append(Segment(sequences, own, slice(start + shift, stop + shift), extent - (rows.stop - stop)))
    return found
