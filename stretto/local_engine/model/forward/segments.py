"""Divides a batch among attention calls: neighbours with equally many rows and similar lengths share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_CALL = 256  # masked keys that cost about as much as another call of attention, on a CPU
_ROWS = 128  # rows of a prompt in one call


class Segment(NamedTuple):
    """Rows of neighbours in a batch that share one call of attention.

    Attributes:
        sequences: of the batch.
        rows: of each of them.
        packed: these rows, if the real rows of all sequences are concatenated.
        kv_len: slots that the last of these rows sees.
    """

    sequences: slice
    rows: slice
    packed: slice
    kv_len: int

    @property
    def is_single(self) -> bool:
        """Whether it is a single row, which needs no mask: it sees all ``kv_len`` slots."""
        return bool(self.packed.stop - self.packed.start == 1)


def segments(rows: Sequence[slice], kv_lens: Sequence[int]) -> tuple[Segment, ...]:
    """Divide a batch so that short sequences are not padded to the length of long ones.

    Args:
        rows: the real ones of each sequence; sequences without any are in no segment.
        kv_lens: slots that each sequence sees.
    """
    found: list[Segment] = []
    offset = 0
    for number, (own, kv_len) in enumerate(zip(rows, kv_lens, strict=True)):
        count = own.stop - own.start
        if not count:
            continue
        if found and count <= _ROWS and found[-1].rows == own and found[-1].sequences.stop == number:
            last = found[-1]
            longest, before = max(last.kv_len, kv_len), number - last.sequences.start
            wasted = (before + 1) * longest - before * last.kv_len - kv_len
            if count * wasted <= _CALL:
                sequences, packed = slice(last.sequences.start, number + 1), slice(last.packed.start, offset + count)
                found[-1] = Segment(sequences, own, packed, longest)
                offset += count
                continue
        found.append(Segment(slice(number, number + 1), own, slice(offset, offset + count), kv_len))
        offset += count
    return tuple(found)


def parts(rows: Sequence[slice], kv_lens: Sequence[int]) -> tuple[Segment, ...]:
    """Divide long prompts as well, so that early rows are not padded to what the last one sees."""
    return tuple(part for segment in segments(rows, kv_lens) for part in _parts(segment))


def _parts(segment: Segment) -> list[Segment]:
    sequences, rows, packed, kv_len = segment
    if packed.stop - packed.start <= _ROWS or sequences.stop - sequences.start > 1:
        return [segment]
    found = []
    for start in range(rows.start, rows.stop, _ROWS):
        stop, shift = min(start + _ROWS, rows.stop), packed.start - rows.start
        own = slice(start, stop)
        found.append(Segment(sequences, own, slice(start + shift, stop + shift), kv_len - (rows.stop - stop)))
    return found
