"""Adapters beside the weights of the Llama family: which rows have which, in torch's operations and compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.model.rows import Rows

if TYPE_CHECKING:
    from stretto.local_engine.kernels.changes import CompiledChanges
    from stretto.local_engine.model.beside import Beside

__all__ = ["Places", "RowChanges", "adapters_of", "apply"]

_PRODUCTS = ("query_key_value", "output", "gate_up", "down")
"""Of a layer, in the order in which compiled code has them."""

Places = Mapping[tuple[int, str], "Beside"]
"""What an adapter adds, by the number of the layer and the product's name."""


def adapters_of(names: Iterable[str | None]) -> tuple[str | None, ...] | None:
    """What `Rows.adapters` is for sequences with these adapters."""
    given = tuple(names)
    return given if any(name is not None for name in given) else None


@dataclass(frozen=True, slots=True)
class _Table:
    """See `CompiledChanges`; ``kept`` are the arrays whose addresses it holds."""

    numbers: Mapping[str, int]
    table: NDArray[np.int64]
    changes: NDArray[np.int64]
    widest: int
    kept: tuple[NDArray[np.float32], ...]


class RowChanges:
    """The adapters of a forward of the Llama family, by name. Frozen: another adapter makes another one.

    Args:
        adapters: what each adds.
        sizes: the width of the residual stream, and the number of layers.
    """

    def __init__(self, adapters: Mapping[str, Places], sizes: tuple[int, int]) -> None:
        self.adapters = adapters
        self._sizes = sizes
        self._table = self._tabulated() if adapters else None

    def with_adapter(self, name: str, places: Places) -> RowChanges:
        """The same with one more."""
        return RowChanges({**self.adapters, name: places}, self._sizes)

    def of(self, rows: Rows) -> list[tuple[Places, Tensor | None]]:
        """What is added to which rows, for `apply`. The rows are those without padding, where that is left out."""
        if rows.adapters is None:
            return []
        batch, count = rows.tokens.shape
        if len({*rows.adapters}) == 1:
            return [(self.adapters[name], None) for name in rows.adapters[:1] if name is not None]
        indices = torch.arange(batch * count, device=rows.tokens.device) if rows.real is None else rows.real
        sequences, found = indices // count, list[tuple[Places, Tensor | None]]()
        for name in dict.fromkeys(filter(None, rows.adapters)):
            own = torch.tensor([each == name for each in rows.adapters], device=sequences.device)
            found.append((self.adapters[name], own[sequences].nonzero()[:, 0]))
        return found

    def compiled(self, rows: Rows) -> CompiledChanges:
        """What `stretto.local_engine.kernels.changes` takes for some rows, at least one of which has an adapter."""
        from stretto.local_engine.kernels.changes import CompiledChanges  # noqa: PLC0415 - it imports numba

        known = self._table
        assert known is not None  # noqa: S101 - the engine refuses adapters that are not there; for the type checker
        assert rows.adapters is not None  # noqa: S101 - as above
        batch, count = rows.tokens.shape
        numbers = np.array([-1 if name is None else known.numbers[name] for name in rows.adapters])
        indices = np.arange(batch * count) if rows.real is None else rows.real.numpy()
        chosen = numbers[indices // count]
        return CompiledChanges(
            known.table,
            known.changes,
            chosen,
            np.empty((len(chosen), known.widest), np.float32),
            np.empty((len(chosen), self._sizes[0]), np.float32),
        )

    def _tabulated(self) -> _Table:
        table = np.zeros((len(self.adapters), self._sizes[1], len(_PRODUCTS), 2), np.int64)
        lines, kept, widest = list[list[int]](), list[NDArray[np.float32]](), 1
        for adapter, places in enumerate(self.adapters.values()):
            for (layer, name), beside in places.items():
                begin, own = len(lines), 0
                for change in beside.changes:
                    arrays = [_array(change.down), _array(change.up.T)]
                    factor = 0 if change.factor is None else _array(change.factor)
                    addresses = [each.ctypes.data for each in arrays]
                    if not isinstance(factor, int):
                        kept.append(factor)
                        factor = factor.ctypes.data
                    kept += arrays
                    rank = len(change.down)
                    lines.append([rank, change.first, change.last, *addresses, factor])
                    own += rank
                table[adapter, layer, _PRODUCTS.index(name)] = begin, len(lines)
                widest = max(widest, own)
        numbers = {name: number for number, name in enumerate(self.adapters)}
        changes = np.array(lines, np.int64).reshape(-1, 6)
        return _Table(numbers, table, changes, widest, tuple(kept))


def apply(found: Iterable[tuple[Places, Tensor | None]], place: tuple[int, str], read: Tensor, made: Tensor) -> Tensor:
    """Add the changes of some rows to a product without its bias # [batch, rows, outer].

    Args:
        found: see `RowChanges.of`.
        place: the number of the layer, and the product's name.
        read: what was multiplied # [batch, rows, inner]
        made: the product.
    """
    for places, rows in found:
        change = places.get(place)
        if change is None:
            continue
        if rows is None:
            made = change(read, made)
        else:
            flat = made.flatten(0, 1)
            some = change(read.flatten(0, 1)[rows], flat[rows])
            made = flat.index_copy(0, rows, some).view_as(made)
    return made


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())
