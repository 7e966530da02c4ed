"""Turns draft trees into the rows of one forward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.segments import Segment, segments

_Number = TypeVar("_Number", np.int64, np.bool_)

_PACKED = 0.8  # up to this share of real rows, leaving out the padding pays off on a GPU


def flatten(texts: Sequence[Sequence[int]], trees: Sequence[DraftTree], device: torch.device) -> Rows:
    """Create a row for each sequence's last committed token, and one for each node of its draft.

    Row 0 is the last token, row i + 1 is node i. Sequences with fewer nodes than others are padded with rows that no
    other row sees, in unused slots.

    Args:
        texts: the committed tokens of each sequence; the last one is not in the cache yet.
        trees: the draft of each sequence.
        device: where the model is.
    """
    starts = [len(text) - 1 for text in texts]  # position and slot of row 0
    rows = 1 + max(map(len, trees))
    kv_len = max(starts) + rows
    if rows == 1:
        return Rows(
            _tensor([[text[-1]] for text in texts], device),
            _tensor([[start] for start in starts], device),
            kv_len,
            segments=_divided(starts, [1] * len(texts), device),
        )
    shapes = [_shape(tuple(tree.parents), rows) for tree in trees]
    tokens = np.array(
        [[text[-1], *tree.tokens, *(0,) * (rows - 1 - len(tree))] for text, tree in zip(texts, trees, strict=True)]
    )
    first, offsets = np.array(starts)[:, None], np.arange(rows)
    blank = tokens < 0
    some_blank = bool(blank.any())
    counts = [rows if some_blank else 1 + len(tree) for tree in trees]
    divided, real = _divided(starts, counts, device) if len(trees) > 1 else None, None
    if sum(counts) < rows * len(trees) and (divided is not None or sum(counts) <= _PACKED * rows * len(trees)):
        real = _tensor([number * rows + row for number, own in enumerate(counts) for row in range(own)], device)
    return Rows(
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(first + _stacked([depths for depths, _ in shapes])).to(device),
        kv_len,
        slots=torch.from_numpy(first + offsets).to(device),
        ancestry=torch.from_numpy(_stacked([ancestry for _, ancestry in shapes])).to(device),
        blank=torch.from_numpy(blank).to(device) if some_blank else None,
        real=real,
        segments=divided,
    )


def _stacked(tables: Sequence[NDArray[_Number]]) -> NDArray[_Number]:
    return tables[0][None] if len(tables) == 1 else np.stack(tables)  # ten times faster


def _tensor(numbers: Sequence[object], device: torch.device) -> Tensor:
    """Create a tensor via NumPy, which is three times faster."""
    return torch.from_numpy(np.array(numbers)).to(device)


def _divided(starts: Sequence[int], counts: Sequence[int], device: torch.device) -> tuple[Segment, ...] | None:
    """Divide a step of multiple sequences into segments; not on a GPU, where padding costs less than another kernel."""
    if device.type != "cpu":
        return None
    found = segments([slice(0, count) for count in counts], [sum(pair) for pair in zip(starts, counts, strict=True)])
    return found if len(found) > 1 or found[0].is_single else None


@lru_cache(256)
def _shape(parents: tuple[int, ...], rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the depth of each row, and which rows each row descends from # [rows], [rows, rows].

    Cached, because most drafts of a method have one of a few shapes. Padding rows are separate roots.
    """
    lines = lineage(parents, rows)
    return np.array([line.bit_count() - 1 for line in lines]), ancestry(lines)


def lineage(parents: Sequence[int], rows: int) -> list[int]:
    """Return which rows each row descends from, itself included, as the bits of an integer.

    A child has the bits of its parent and its own. Rows beyond the tree descend from themselves only.
    """
    lines = [1]
    for row, parent in enumerate(parents, 1):
        lines.append(lines[parent + 1] | 1 << row)
    lines.extend(1 << row for row in range(len(lines), rows))
    return lines


def ancestry(lines: Sequence[int]) -> NDArray[np.bool_]:
    """Unpack the bits of each lineage # [rows, rows]. `_shape` caches the result, so it must not be written to."""
    rows, width = len(lines), (len(lines) + 7) // 8
    packed = b"".join(line.to_bytes(width, "little") for line in lines)
    table = np.frombuffer(packed, dtype=np.uint8).reshape(rows, width)
    return np.unpackbits(table, axis=-1, count=rows, bitorder="little").view(np.bool_)
