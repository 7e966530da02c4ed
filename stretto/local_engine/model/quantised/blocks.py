"""Weights in blocks, with the interface of weights in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS, BlockKind
from stretto.local_engine.kernels.block_layout import Numbers, laid_out, read_back
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.kernels.sizes import BLOCKS, PANEL

_LIKE: NDArray[np.generic] = np.empty(0, np.uint8)
_ALONE: NDArray[np.generic] = np.empty(0, np.int8)
_PIECE = 2**22  # numbers that are read back together
_AT_ONCE = 2**20  # numbers that are laid out together: their arrays fit into the processor's cache


class UnreadWeight(NamedTuple):
    """A weight that is still to be read.

    Attributes:
        kind: storage format of its numbers.
        shape: # [outer, inner]
        numbers: reads some of its lines.
    """

    kind: BlockKind
    shape: tuple[int, ...]
    numbers: Callable[[slice], Numbers]


@dataclass(frozen=True, slots=True)
class Blocks(Panels):
    """A weight # [outer, inner] whose numbers are stored in few bits; see `stretto.local_engine.kernels.blocks`.

    Multiple weights with the same inputs can be joined, each in its own format. ``held`` is the table of them.
    """

    parts: tuple[Tensor, ...] = ()  # [panels, groups, bytes of a block] each

    @classmethod
    def joined(cls, weights: Sequence[Numbers]) -> Blocks:
        """Lay out weights one below the other; see `read`."""
        unread = [UnreadWeight(each.kind, each.codes.shape, partial(_some, each)) for each in weights]
        return cls.read(unread, [torch.empty(shape_of(each.kind, each.shape), dtype=torch.uint8) for each in unread])

    @classmethod
    def read(cls, weights: Sequence[UnreadWeight], places: Sequence[Tensor]) -> Blocks:
        """Read weights and lay them out in their places, without a second full copy in memory.

        Raises ValueError for numbers that are not finite, and the errors of `of_parts`.
        """
        for (_, (lines, inner), numbers), part in zip(weights, places, strict=True):
            step = max(1, _AT_ONCE // (PANEL * inner))
            for begin in range(0, len(part), step):
                piece = numbers(slice(begin * PANEL, min((begin + step) * PANEL, lines)))
                if not all(np.isfinite(array).all() for array in (piece.scales, piece.minima) if array is not None):
                    raise ValueError("a weight holds a number that is none")
                laid_out(piece, part[begin : begin + step].numpy())
        return cls.of_parts([(each.kind, each.shape) for each in weights], places)

    @classmethod
    def of_parts(cls, weights: Sequence[tuple[BlockKind, Sequence[int]]], places: Sequence[Tensor]) -> Blocks:
        """Join laid-out weights one below the other, given their kinds and shapes, and the places of the blocks.

        Raises ValueError if one but the last does not fill its panels.
        """
        table, panels, outer = [], 0, 0
        for (kind, (lines, _)), part in zip(weights, places, strict=True):
            if outer % PANEL:
                raise ValueError(f"{outer} outputs are not panels of {PANEL}")
            table.append((kind.number, panels, len(part), part.data_ptr()))
            panels, outer = panels + len(part), outer + lines
        first = (len(table), panels, weights[0][1][1], 0)
        return cls(torch.tensor([first, *table], dtype=torch.int64), outer, tuple(places))

    @property
    def size(self) -> int:
        return self.filled * self.inner

    @property
    def filled(self) -> int:
        return int(self.held[0, 1]) * PANEL

    @property
    def inner(self) -> int:
        return int(self.held[0, 2])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    @property
    def layout(self) -> int:
        return BLOCKS

    @property
    def like(self) -> NDArray[np.generic]:
        return _LIKE

    @property
    def like_alone(self) -> NDArray[np.generic]:
        return _ALONE

    def rows(self, numbers: Tensor) -> Tensor:
        flat = numbers.flatten()
        panels, which = (flat // PANEL).unique(return_inverse=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        found = torch.empty(len(panels), PANEL, self.inner)
        places = panels.tolist()
        while places:  # neighbouring panels together
            many = next((at for at in range(1, len(places)) if places[at] != places[0] + at), len(places))
            done = len(panels) - len(places)
            found[done : done + many] = self._panels(places[0], places[0] + many)
            del places[:many]
        return found[which, flat % PANEL].view(*numbers.shape, self.inner)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        panels = int(self.held[0, 1])
        whole = torch.empty(panels, PANEL, self.inner, dtype=dtype)
        step = max(1, _PIECE // (PANEL * self.inner))
        for begin in range(0, panels, step):
            end = min(begin + step, panels)
            whole[begin:end] = self._panels(begin, end)
        return whole.view(-1, self.inner)[: self.outer]

    def widened(self) -> Blocks:
        """Return the same numbers, with products computed by torch."""
        return _Widened(self.held, self.outer, self.parts)

    def _panels(self, begin: int, end: int) -> Tensor:
        """Return the numbers of some panels # [end - begin, PANEL, inner]."""
        found = []
        for (number, first, many, _), part in zip(self.held[1:].tolist(), self.parts, strict=True):
            low, high = max(begin - first, 0), min(end - first, many)
            if low < high:
                found.append(torch.from_numpy(read_back(BLOCK_KINDS[number], part[low:high].numpy())))
        return torch.cat(found)


class _Widened(Blocks):
    """Blocks whose products torch computes piece by piece: for processors on which the compiled ones are wrong."""

    __slots__ = ()

    def __call__(self, rows: Tensor) -> Tensor:
        return widened_product(self, rows, range(self.outer))


def shape_of(kind: BlockKind, shape: Sequence[int]) -> tuple[int, int, int]:
    """Return panels, groups and bytes of a block of a weight # [outer, inner], with the last panel padded."""
    outer, inner = shape
    return -(-outer // PANEL), inner // kind.group, kind.nbytes


def _some(weight: Numbers, lines: slice) -> Numbers:
    minima = None if weight.minima is None else weight.minima[lines]
    return Numbers(weight.kind, weight.codes[lines], weight.scales[lines], minima)


def widened_product(
    weight: Panels,
    rows: Tensor,
    lines: range,
    look: Callable[[], None] = lambda: None,
    bias: Tensor | None = None,
) -> Tensor:
    """Multiply rows # [..., inner] by some lines of a weight as torch does, piece by piece -> [..., len(lines)]."""
    step, made = max(1, _PIECE // (PANEL * weight.inner)) * PANEL, []
    for begin in range(lines.start, lines.stop, step):
        look()
        made.append(linear(rows, weight.rows(torch.arange(begin, min(begin + step, lines.stop)))))
    whole = torch.cat(made, -1)
    return whole if bias is None else whole + bias
