"""Weights in blocks, behind the face of weights in panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.kernels.arena import Arena
from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS
from stretto.local_engine.kernels.block_layout import Numbers, laid_out, read_back
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.kernels.sizes import BLOCKS, PANEL

__all__ = ["Blocks"]

_LIKE: NDArray[np.generic] = np.empty(0, np.uint8)
_PIECE = 2**22  # numbers that are read back together


@dataclass(frozen=True, slots=True)
class Blocks(Panels):
    """A weight # [outer, inner] whose numbers are held in few bits; see `stretto.local_engine.kernels.blocks`.

    Several weights of the same inputs may be joined, each held in its own way. ``held`` is the table of them.
    """

    parts: tuple[Tensor, ...] = ()  # [panels, groups, bytes of a block] each

    @classmethod
    def joined(cls, weights: Sequence[Numbers], arena: Arena | None = None) -> Blocks:
        """Lay weights out, one below the other; raises ValueError if one but the last does not fill its panels."""
        table, parts, panels, outer = [], [], 0, 0
        for weight in weights:
            if outer % PANEL:
                raise ValueError(f"{outer} outputs are not panels of {PANEL}")
            kind, (lines, inner) = weight.kind, weight.codes.shape
            shape = (-(-lines // PANEL), inner // kind.group, kind.nbytes)
            part = torch.empty(shape, dtype=torch.uint8) if arena is None else arena.allocate(shape, torch.uint8)
            laid_out(weight, part.numpy())
            table.append((kind.number, panels, len(part), part.data_ptr()))
            parts.append(part)
            panels, outer = panels + len(part), outer + lines
        return cls(torch.tensor([(len(parts), panels, inner, 0), *table], dtype=torch.int64), outer, tuple(parts))

    @property
    def size(self) -> int:
        """See `Panels`."""
        return self.filled * self.inner

    @property
    def filled(self) -> int:
        """See `Panels`."""
        return int(self.held[0, 1]) * PANEL

    @property
    def inner(self) -> int:
        """See `Panels`."""
        return int(self.held[0, 2])

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return sum(part.nbytes for part in self.parts)

    @property
    def layout(self) -> int:
        """See `Panels`."""
        return BLOCKS

    @property
    def like(self) -> NDArray[np.generic]:
        """See `Panels`."""
        return _LIKE

    def rows(self, numbers: Tensor) -> Tensor:
        """See `Panels`."""
        flat = numbers.flatten()
        panels, which = (flat // PANEL).unique(return_inverse=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        found = torch.empty(len(panels), PANEL, self.inner)
        places = panels.tolist()
        while places:  # those beside each other together
            many = next((at for at in range(1, len(places)) if places[at] != places[0] + at), len(places))
            done = len(panels) - len(places)
            found[done : done + many] = self._panels(places[0], places[0] + many)
            del places[:many]
        return found[which, flat % PANEL].view(*numbers.shape, self.inner)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """See `Panels`."""
        panels = int(self.held[0, 1])
        whole = torch.empty(panels, PANEL, self.inner, dtype=dtype)
        step = max(1, _PIECE // (PANEL * self.inner))
        for begin in range(0, panels, step):
            end = min(begin + step, panels)
            whole[begin:end] = self._panels(begin, end)
        return whole.view(-1, self.inner)[: self.outer]

    def _panels(self, begin: int, end: int) -> Tensor:
        """Numbers of some panels # [end - begin, PANEL, inner]."""
        found = []
        for (number, first, many, _), part in zip(self.held[1:].tolist(), self.parts, strict=True):
            low, high = max(begin - first, 0), min(end - first, many)
            if low < high:
                found.append(torch.from_numpy(read_back(BLOCK_KINDS[number], part[low:high].numpy())))
        return torch.cat(found)
